"""GGUF (llama.cpp): metadata, tensor descriptions, and tensors that are aligned inside the file without overlap."""

from __future__ import annotations

import struct
from typing import Dict, List, NamedTuple, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.count_nonfinite import Span, scan
from leasehold.kit.readers.base.result import KeyList, Limits, Numbers, Reading, Unreadable, legible

from .protobuf import Window

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST_FACTS = 100_000
_MOST_TEXT_BYTES = 64 << 20
_MOST_VALUES = 20_000_000  # in all arrays of the metadata together; a vocabulary has 300,000
_MOST_DIMENSIONS = 4
_MOST_DEPTH = 8
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_TEXT, _ARRAY, _BOOL, _U32 = 8, 9, 7, 4
# Type of a tensor: elements and bytes of one block of it (ggml.h and ggml-common.h).
_BLOCKS: Dict[int, Tuple[int, int]] = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66),
    17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136),
    24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54),
    35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18),
}  # fmt: skip
_FLOATS = {0: "F32", 1: "F16", 28: "F64", 30: "BF16"}
_WHOLE = frozenset((24, 25, 26, 27))


class _Tensor(NamedTuple):
    name: str
    kind: int
    numel: int
    offset: int
    bytes: int


def read_gguf(source: Source, limits: Limits) -> Reading:
    """Walk metadata and descriptions, prove each tensor's place, and count NaN in tensors of plain floats."""
    head = _Head(source, limits)
    tensors = head.tensors()
    start = -(-head.at // head.alignment) * head.alignment if tensors else head.at
    end, notes = _check_places(source, tensors, start, head.alignment), []
    spans = [
        Span(each.name, _FLOATS[each.kind], start + each.offset, each.bytes) for each in tensors if each.kind in _FLOATS
    ]
    found = scan(source, spans, head.big_endian).numbers
    quantized = sum(each.kind not in _FLOATS and each.kind not in _WHOLE for each in tensors)
    unread = "%d quantized tensors" % quantized if quantized else ""
    if head.big_endian:
        notes.append("was written for a big-endian machine")
    if tensors and end % head.alignment:
        notes.append("ends inside the padding behind the last tensor, whose bytes are all there")
    if end < source.size:
        notes.append("%d bytes behind the last tensor belong to none" % (source.size - end))
    notes.insert(
        0, "GGUF version %d, architecture %s, %d metadata values" % (head.version, head.architecture, head.facts)
    )
    keys = KeyList(limits)
    keys.extend(each.name for each in tensors)
    numel = sum(each.numel for each in tensors)
    numbers = Numbers(found.nan, found.inf, found.where, found.more, unread)
    return Reading("gguf", source.size, len(tensors), numel, keys.names(), (), (*notes, *keys.notes()), numbers)


class _Head:
    """The part before the tensors, read in order."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self._source, self._window, self._limits = source, Window(source), limits
        self.at, self.alignment, self.architecture, self._values = 0, 32, "not named", 0
        magic = self._take(4)
        if magic != _MAGIC:
            raise Unreadable("is not GGUF: it begins with %r" % magic)
        raw = self._take(4)
        self.big_endian = int.from_bytes(raw, "little") not in _VERSIONS and int.from_bytes(raw, "big") in _VERSIONS
        self._order = ">" if self.big_endian else "<"
        self.version = int.from_bytes(raw, "big" if self.big_endian else "little")
        if self.version not in _VERSIONS:
            raise Unreadable("has GGUF version %d; 2 and 3 are read" % self.version)
        self._count, self.facts = self._number("Q"), self._number("Q")
        if self._count > limits.max_items or self.facts > _MOST_FACTS:
            raise Unreadable(
                "claims %d tensors and %d metadata values; that many are not read" % (self._count, self.facts)
            )
        self._metadata()

    def tensors(self) -> List[_Tensor]:
        """Read the descriptions of the tensors."""
        found: Dict[str, _Tensor] = {}
        for _ in range(self._count):
            name = self._text()
            if name in found:
                raise Unreadable("names tensor %s twice" % legible(name))
            dimensions = self._number("I")
            if dimensions > _MOST_DIMENSIONS:
                raise Unreadable("tensor %s has %d dimensions; GGUF has at most 4" % (legible(name), dimensions))
            found[name] = self._tensor(name, [self._number("Q") for _ in range(dimensions)])
        return list(found.values())

    def _tensor(self, name: str, sizes: List[int]) -> _Tensor:
        kind, offset, numel = self._number("I"), self._number("Q"), 1
        for size in sizes:
            numel *= size
        if kind not in _BLOCKS:
            raise Unreadable("tensor %s has type %d, which is unknown" % (legible(name), kind))
        elements, width = _BLOCKS[kind]
        row = sizes[0] if sizes else 1
        if row % elements:
            raise Unreadable("tensor %s has rows of %d, not whole blocks of %d" % (legible(name), row, elements))
        return _Tensor(name, kind, numel, offset, numel // elements * width)

    def _metadata(self) -> None:
        names = set()
        for _ in range(self.facts):
            name, kind = self._text(), self._number("I")
            if name in names:
                raise Unreadable("names metadata %s twice" % legible(name))
            names.add(name)
            if name == "general.alignment" and kind == _U32:
                self.alignment = self._number("I")
                if not self.alignment or self.alignment % 8 or self.alignment > 1 << 20:
                    raise Unreadable("has alignment %d, which is not a multiple of 8" % self.alignment)
            elif name == "general.architecture" and kind == _TEXT:
                self.architecture = legible(self._text(), 60)
            else:
                self._value(name, kind, 0)

    def _value(self, name: str, kind: int, depth: int) -> None:
        if kind in _WIDTHS:
            if self._take(_WIDTHS[kind]) not in (b"\0", b"\1") and kind == _BOOL:
                raise Unreadable("metadata %s is neither true nor false" % legible(name))
        elif kind == _TEXT:
            self._text()
        elif kind == _ARRAY and depth < _MOST_DEPTH:
            self._array(name, depth)
        else:
            raise Unreadable("metadata %s has type %d, which is unknown" % (legible(name), kind))

    def _array(self, name: str, depth: int) -> None:
        kind, count = self._number("I"), self._number("Q")
        self._values += count
        if self._values > _MOST_VALUES:
            raise Unreadable("metadata %s claims %d values; that many are not read" % (legible(name), count))
        if kind in _WIDTHS:
            if self.at + count * _WIDTHS[kind] > self._source.size:
                raise Unreadable("cut short: metadata %s ends past the file" % legible(name))
            self.at += count * _WIDTHS[kind]
            return
        for _ in range(count):
            self._value(name, kind, depth + 1)

    def _text(self) -> str:
        length = self._number("Q")
        if length > _MOST_TEXT_BYTES:
            raise Unreadable("a text at byte %d claims %d bytes; that many are not read" % (self.at, length))
        at = self.at
        try:
            return self._take(length).decode("utf-8")
        except UnicodeDecodeError:
            raise Unreadable("a text at byte %d is not UTF-8" % at) from None

    def _number(self, form: str) -> int:
        return int(struct.unpack(self._order + form, self._take(struct.calcsize(self._order + form)))[0])

    def _take(self, count: int) -> bytes:
        found = self._window.take(self.at, count)
        self.at += count
        return found


def _check_places(source: Source, tensors: List[_Tensor], start: int, alignment: int) -> int:
    """Return where the last tensor ends; none overlaps, leaves the file, or is misaligned."""
    end = 0
    for each in sorted(tensors, key=lambda each: (each.offset, each.bytes)):
        if each.offset % alignment:
            raise Unreadable("tensor %s is not aligned to %d bytes" % (legible(each.name), alignment))
        if each.offset < end:
            raise Unreadable("tensor %s overlaps the one before" % legible(each.name))
        if each.offset - end >= alignment:
            raise Unreadable("tensor %s leaves %d bytes unused before it" % (legible(each.name), each.offset - end))
        end = each.offset + each.bytes
        if start + end > source.size:
            seen = (legible(each.name), start + end, source.size)
            raise Unreadable("cut short: tensor %s ends at byte %d, the file has %d" % seen)
    return min(-(-(start + end) // alignment) * alignment, source.size) if tensors else start
