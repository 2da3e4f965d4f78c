"""Read flatbuffers by offset: tables, vectors and structures of a message whose bytes are in memory."""

from __future__ import annotations

import struct
from typing import List, Optional, Tuple

from leasehold.kit.readers.base.result import Unreadable

_MOST_TABLES = 200_000
_MOST_STRUCTURES = 1_000_000


class Table:
    """A table: its fields are found by number through its list of offsets."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - int(_number(data, at, "<i"))
        self._fields_bytes = int(_number(data, self._fields, "<H"))
        if self._fields_bytes < 4 or self._fields_bytes % 2:
            raise Unreadable("is damaged: a table at byte %d has no list of fields" % at)

    def number(self, field: int, form: str, absent: int = 0) -> int:
        """Return a field that holds a number."""
        at = self._place(field)
        return absent if at is None else int(_number(self._data, at, form))

    def table(self, field: int) -> "Optional[Table]":
        """Return the table that a field points at."""
        at = self._pointed(field)
        return None if at is None else Table(self._data, at)

    def text(self, field: int) -> str:
        """Return the text that a field points at; empty if there is none."""
        at = self._pointed(field)
        if at is None:
            return ""
        begin, count = self._vector(at, 1)
        return self._data[begin : begin + count].decode("utf-8", "replace")

    def tables(self, field: int) -> "List[Table]":
        """Return the tables of a vector, a few hundred thousand at most."""
        at = self._pointed(field)
        if at is None:
            return []
        begin, count = self._vector(at, 4)
        if count > _MOST_TABLES:
            raise Unreadable("has a list of %d parts; that many are not read" % count)
        return [
            Table(self._data, place + int(_number(self._data, place, "<I")))
            for place in range(begin, begin + 4 * count, 4)
        ]

    def structures(self, field: int, form: str) -> List[Tuple[int, ...]]:
        """Return the structures of a vector, each as its numbers."""
        at = self._pointed(field)
        if at is None:
            return []
        layout = struct.Struct(form)
        begin, count = self._vector(at, layout.size)
        if count > _MOST_STRUCTURES:
            raise Unreadable("has a list of %d places; that many are not read" % count)
        return list(layout.iter_unpack(self._data[begin : begin + count * layout.size]))

    def _vector(self, at: int, width: int) -> Tuple[int, int]:
        count = int(_number(self._data, at, "<I"))
        if at + 4 + count * width > len(self._data):
            raise Unreadable("cut short or lying: a list of %d items at byte %d" % (count, at))
        return at + 4, count

    def _place(self, field: int) -> Optional[int]:
        slot = 4 + 2 * field
        if slot + 2 > self._fields_bytes:
            return None
        offset = int(_number(self._data, self._fields + slot, "<H"))
        return self._at + offset if offset else None

    def _pointed(self, field: int) -> Optional[int]:
        at = self._place(field)
        return None if at is None else at + int(_number(self._data, at, "<I"))


def root(data: bytes) -> Table:
    """Return the table that a message begins with."""
    return Table(data, int(_number(data, 0, "<I")))


def _number(data: bytes, at: int, form: str) -> int:
    if at < 0 or at + struct.calcsize(form) > len(data):
        raise Unreadable("cut short or lying: a number at byte %d of a message of %d" % (at, len(data)))
    return int(struct.unpack_from(form, data, at)[0])
