"""Count NaN and infinity in raw bytes, without numpy: whole blocks are taken as one big number."""

from __future__ import annotations

from typing import Dict, Iterable, List, NamedTuple, Tuple

from leasehold.kit.readers.source import Source

# Width of an element, and the bits of its exponent (of all its numbers, where only they together mean NaN).
_EXPONENTS: Dict[str, Tuple[int, int]] = {
    "F64": (8, 0x7FF0 << 48),
    "F32": (4, 0x7F80 << 16),
    "BF16": (2, 0x7F80),
    "F16": (2, 0x7C00),
    "F8_E5M2": (1, 0x7C),
    "F8_E4M3": (1, 0x7F),
}
_SAME = {"C64": "F32", "C128": "F64"}
_BLOCK_BYTES = 1 << 16  # big numbers are quickest while they fit the cache


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
        if _SAME.get(span.dtype, span.dtype) not in _EXPONENTS:
            continue
        found = sum(count_bad(bytes(piece), span.dtype) for piece in source.pieces(span.offset, span.bytes))
        checked += span.bytes
        bad += found
        if found and len(where) < 5:
            where.append(span.name)
    return Finding(checked, bad, tuple(where))


def count_bad(data: bytes, dtype: str) -> int:
    """Count the elements whose exponent has all bits set."""
    kind = _SAME.get(dtype, dtype)
    width, mask = _EXPONENTS[kind]
    whole = len(data) - len(data) % width
    if 1 not in data[width - 1 : whole : width].translate(_FULL[kind]):
        return 0  # no number is large enough: nearly every piece of a good file
    return sum(_count_lanes(data[at : min(at + _BLOCK_BYTES, whole)], kind) for at in range(0, whole, _BLOCK_BYTES))


def _count_lanes(block: bytes, kind: str) -> int:
    """Take the block as one number: an exponent that is full overflows into its sign's place when one is added."""
    width, (mask, one, sign) = _EXPONENTS[kind][0], _LANES[kind]
    over = ((int.from_bytes(block, "little") & mask) + one) & sign
    return over.to_bytes(_BLOCK_BYTES, "little")[width - 1 :: width].count(0x80) if over else 0


def _repeated(lane: int, width: int) -> int:
    return int.from_bytes(lane.to_bytes(width, "little") * (_BLOCK_BYTES // width), "little")


def _full(width: int, mask: int) -> bytes:
    top = mask >> 8 * (width - 1)
    return bytes(1 if byte & top == top else 0 for byte in range(256))


_FULL = {kind: _full(*shape) for kind, shape in _EXPONENTS.items()}
_LANES = {
    kind: tuple(_repeated(lane, width) for lane in (mask, mask & -mask, 1 << 8 * width - 1))
    for kind, (width, mask) in _EXPONENTS.items()
}
