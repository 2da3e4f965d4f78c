"""Count NaN and infinity in raw bytes, without numpy: the exponent's bits are compared as whole strings of bytes."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List, NamedTuple, Tuple

from leasehold.kit.readers.source import Source


def _table(wanted: Callable[[int], bool]) -> bytes:
    return bytes(1 if wanted(byte) else 0 for byte in range(256))


_EXPONENT_FULL = _table(lambda byte: byte & 0x7F == 0x7F)
_TOP_BIT = _table(lambda byte: byte & 0x80 == 0x80)
_HIGH_HALF = _table(lambda byte: byte & 0xF0 == 0xF0)
_FIVE_BITS = _table(lambda byte: byte & 0x7C == 0x7C)

# Width of an element, and for each byte that holds exponent bits (counted from the lowest) what it is when all are set.
_MARKS: Dict[str, Tuple[int, List[Tuple[int, bytes]]]] = {
    "F64": (8, [(7, _EXPONENT_FULL), (6, _HIGH_HALF)]),
    "F32": (4, [(3, _EXPONENT_FULL), (2, _TOP_BIT)]),
    "BF16": (2, [(1, _EXPONENT_FULL), (0, _TOP_BIT)]),
    "F16": (2, [(1, _FIVE_BITS)]),
    "F8_E5M2": (1, [(0, _FIVE_BITS)]),
    "F8_E4M3": (1, [(0, _EXPONENT_FULL)]),
}
_SAME = {"C64": "F32", "C128": "F64"}


class Span(NamedTuple):
    """Where elements of one type lie in a file."""

    name: str
    dtype: str
    offset: int
    bytes: int


class Finding(NamedTuple):
    """What a scan found."""

    checked_bytes: int
    bad: int  # elements that are NaN or infinite
    where: Tuple[str, ...]  # names of the first few spans that hold some


def scan(source: Source, spans: Iterable[Span]) -> Finding:
    """Read every span of floating-point numbers and count what is not finite."""
    checked = bad = 0
    where: List[str] = []
    for span in spans:
        if _SAME.get(span.dtype, span.dtype) not in _MARKS:
            continue
        found = sum(count_bad(bytes(piece), span.dtype) for piece in source.pieces(span.offset, span.bytes))
        checked += span.bytes
        bad += found
        if found and len(where) < 5:
            where.append(span.name)
    return Finding(checked, bad, tuple(where))


def count_bad(data: bytes, dtype: str) -> int:
    """Count the elements whose exponent has all bits set."""
    width, marks = _MARKS[_SAME.get(dtype, dtype)]
    whole = len(data) - len(data) % width
    together = -1
    for place, table in marks:
        hits = data[place:whole:width].translate(table)
        if 1 not in hits:
            return 0
        together &= int.from_bytes(hits, "little")
    return bin(together).count("1")
