"""Walk protocol buffers field by field, without a schema: places and numbers, nothing is built."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.result import Unreadable

VARINT, WIDE, BYTES, NARROW = 0, 1, 2, 5
_MOST_VARINT = 10


class Field(NamedTuple):
    """A field: its number, its wire type, its value (of a number) or length, and where its bytes begin."""

    number: int
    wire: int
    value: int
    at: int


class Window:
    """A file read forwards in pieces, so that a message of many small fields costs few reads."""

    _BYTES = 1 << 18
    _MOST_FIELDS = 4_000_000  # of all messages together: a model of a million nodes has fewer
    _seen = 0

    def __init__(self, source: Source) -> None:
        self.source = source
        self._begin, self._held = 0, b""

    def take(self, at: int, count: int) -> bytes:
        """Return `count` bytes, a small number."""
        skip = at - self._begin
        if skip < 0 or skip + count > len(self._held):
            room = max(count, min(self._BYTES, self.source.size - at))
            self._begin, self._held, skip = at, self.source.read_at(at, room), 0
        return self._held[skip : skip + count]

    def varint(self, at: int, end: int) -> Tuple[int, int]:
        """Return a number of variable length, and where it ends."""
        value = 0
        raw = self.take(at, min(_MOST_VARINT, end - at)) if at < end else b""
        for place, byte in enumerate(raw):
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                if value >= 1 << 64:
                    break
                return value, at + place + 1
        raise Unreadable("is damaged: no whole number at byte %d" % at)

    def fields(self, at: int, end: int, what: str) -> Iterator[Field]:
        """Yield the fields of the message between two places; it must end exactly with a field."""
        while at < end:
            begin = at
            self._seen += 1
            if self._seen > self._MOST_FIELDS:
                raise Unreadable("has more than %d fields; that many are not read" % self._MOST_FIELDS)
            tag, at = self.varint(at, end)
            number, wire = tag >> 3, tag & 7
            if not 0 < number < 1 << 29:
                raise Unreadable("%s has a field without a number (byte %d)" % (what, begin))
            if wire == VARINT:
                value, following = self.varint(at, end)
            elif wire == BYTES:
                value, at = self.varint(at, end)
                following = at + value
            elif wire in (WIDE, NARROW):
                value, following = 8 if wire == WIDE else 4, at + (8 if wire == WIDE else 4)
            else:
                raise Unreadable("%s has a field of unknown kind %d (byte %d)" % (what, wire, begin))
            if following > end:
                raise Unreadable(
                    "cut short or lying: a field at byte %d of %s ends at byte %d, past %d"
                    % (begin, what, following, end)
                )
            yield Field(number, wire, value, at)
            at = following


def signed(value: int) -> int:
    """Read a 64-bit number as signed."""
    return value - (1 << 64) if value >= 1 << 63 else value
