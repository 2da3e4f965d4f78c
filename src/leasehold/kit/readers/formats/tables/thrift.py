"""Thrift's compact protocol: the wanted fields of a structure are read, all others skipped."""

from __future__ import annotations

from typing import Dict, List, Mapping, Union

from leasehold.kit.readers.base.result import Unreadable

# A wanted field -> None for a number or text, or the fields wanted of the structure (or of each in a list).
Wanted = Mapping[int, Union[None, "Wanted"]]
Found = Dict[int, object]
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_MOST_DEPTH = 24
_MOST_VALUES = 2_000_000  # of a footer; the columns of 100,000 chunks have fewer


class Compact:
    """Bytes in the compact protocol, and a position in them."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at, self._seen = data, 0, 0

    def structure(self, wanted: Wanted, depth: int = 0) -> Found:
        """Read a structure's wanted fields by number."""
        if depth > _MOST_DEPTH:
            raise Unreadable("nests deeper than %d" % _MOST_DEPTH)
        self._count()
        found: Found = {}
        number = 0
        while True:
            self._count()
            head = self._byte()
            if not head:
                return found
            kind = head & 15
            number = number + (head >> 4) if head >> 4 else self._signed()
            if number in found:
                raise Unreadable("is damaged: field %d comes twice (byte %d)" % (number, self.at))
            if number in wanted:
                found[number] = self._value(kind, wanted[number], depth)
            else:
                self._skip(kind, depth)

    def _value(self, kind: int, wanted: Union[None, Wanted], depth: int) -> object:
        if kind == _LIST:
            return self._list(wanted, depth)
        if kind == _STRUCT and wanted is not None:
            return self.structure(wanted, depth + 1)
        if wanted is None and kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if wanted is None and kind in (_BYTE, _I16, _I32, _I64):
            return self._signed() if kind != _BYTE else self._byte()
        if wanted is None and kind == _BINARY:
            return self._take(self._varint())
        raise Unreadable("is damaged: a field has another type than it should (byte %d)" % self.at)

    def _list(self, wanted: Union[None, Wanted], depth: int) -> List[object]:
        head = self._byte()
        count, kind = head >> 4, head & 15
        count = self._varint() if count == 15 else count
        self._check_count(count)
        return [self._item(kind, wanted, depth + 1) for _ in range(count)]

    def _item(self, kind: int, wanted: Union[None, Wanted], depth: int) -> object:
        self._count()
        if kind in (_TRUE, _FALSE):  # in a list a boolean has a byte of its own
            return self._byte() == _TRUE
        return self._value(kind, wanted, depth)

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _MOST_DEPTH:
            raise Unreadable("nests deeper than %d" % _MOST_DEPTH)
        if kind in (_TRUE, _FALSE):
            return
        if kind == _BYTE:
            self._take(1)
        elif kind in (_I16, _I32, _I64):
            self._varint()
        elif kind == _DOUBLE:
            self._take(8)
        elif kind == _BINARY:
            self._take(self._varint())
        elif kind in (_LIST, _SET):
            head = self._byte()
            count = self._varint() if head >> 4 == 15 else head >> 4
            self._check_count(count)
            for _ in range(count):
                self._skip_item(head & 15, depth + 1)
        elif kind == _MAP:
            self._skip_map(depth)
        elif kind == _STRUCT:
            self.structure({}, depth + 1)
        else:
            raise Unreadable("is damaged: a field of type %d (byte %d)" % (kind, self.at))

    def _skip_item(self, kind: int, depth: int) -> None:
        """Skip an item of a list or a map, where a boolean has a byte of its own."""
        self._count()
        if kind in (_TRUE, _FALSE):
            self._take(1)
        else:
            self._skip(kind, depth)

    def _skip_map(self, depth: int) -> None:
        count = self._varint()
        self._check_count(count)
        kinds = self._byte() if count else 0
        for _ in range(count):
            self._skip_item(kinds >> 4, depth + 1)
            self._skip_item(kinds & 15, depth + 1)

    def _check_count(self, count: int) -> None:
        if count > len(self._data) - self.at:
            raise Unreadable("cut short or lying: a list of %d items at byte %d" % (count, self.at))

    def _count(self) -> None:
        self._seen += 1
        if self._seen > _MOST_VALUES:
            raise Unreadable("has more than %d values in one description; that many are not read" % _MOST_VALUES)

    def _signed(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _varint(self) -> int:
        value = place = 0
        while place < 70:
            byte = self._byte()
            value |= (byte & 0x7F) << place
            if byte < 0x80:
                return value
            place += 7
        raise Unreadable("is damaged: no whole number at byte %d" % self.at)

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, count: int) -> bytes:
        if count > len(self._data) - self.at:
            raise Unreadable("cut short or lying: byte %d claims %d more" % (self.at, count))
        self.at += count
        return self._data[self.at - count : self.at]
