"""Count NaN and infinity in raw bytes, without numpy: whole blocks are treated as one big number."""

from __future__ import annotations

from typing import Dict, Iterable, NamedTuple, Tuple, Union

from .bounded_file import Source
from .result import Numbers, NumberTally

# Width of an element, and the bits of its exponent: all of them set mean NaN or infinity.
_EXPONENTS: Dict[str, Tuple[int, int]] = {
    "F64": (8, 0x7FF0 << 48),
    "F32": (4, 0x7F80 << 16),
    "BF16": (2, 0x7F80),
    "F16": (2, 0x7C00),
}
# Types of one byte: the bytes that mean NaN, and those that mean infinity.
_BYTES: Dict[str, Tuple[bytes, bytes]] = {
    "F8_E5M2": (b"\x7d\x7e\x7f\xfd\xfe\xff", b"\x7c\xfc"),
    "F8_E4M3": (b"\x7f\xff", b""),
    "F8_E4M3FNUZ": (b"\x80", b""),
    "F8_E5M2FNUZ": (b"\x80", b""),
    "F8_E4M3B11FNUZ": (b"\x80", b""),
    "F8_E8M0": (b"\xff", b""),
}
_SAME = {"C32": "F16", "C64": "F32", "C128": "F64"}
_BLOCK_BYTES = 1 << 16  # big numbers are fastest while they fit the cache


class Span(NamedTuple):
    """The place of elements of one type in a file."""

    name: str
    dtype: str
    offset: int
    bytes: int


class Finding(NamedTuple):
    """The result of a scan."""

    checked_bytes: int
    numbers: Numbers
    plain: Tuple[int, int] = (0, 0)  # numbers outside arrays that were examined, and the infinite ones among them


class Counter:
    """Counts NaN and infinity in a stream of elements that arrives in pieces of any size."""

    def __init__(self, dtype: str, skip_bytes: int = 0, big_endian: bool = False) -> None:
        self.nan = self.inf = 0
        self._dtype, self._skip, self._big = dtype, skip_bytes, big_endian
        self._width = 1 if dtype in _BYTES else _EXPONENTS[_SAME.get(dtype, dtype)][0]
        self._held = b""

    def take(self, piece: Union[bytes, memoryview]) -> None:
        """Count in the next piece; an element cut at its end waits for the rest."""
        data = self._held + bytes(piece[self._skip :])
        self._skip = max(0, self._skip - len(piece))
        whole = len(data) - len(data) % self._width
        self._held = data[whole:]
        # Reversed, a big-endian array is a little-endian one in another order.
        nan, inf = count_nonfinite(data[:whole][::-1] if self._big else data[:whole], self._dtype)
        self.nan += nan
        self.inf += inf


def knows(dtype: str) -> bool:
    """Return whether a type has NaN or infinity, and can be counted here."""
    return _SAME.get(dtype, dtype) in _EXPONENTS or dtype in _BYTES


def scan(source: Source, spans: Iterable[Span], big_endian: bool = False) -> Finding:
    """Read every span of floating-point numbers and count what is not finite."""
    checked, tally = 0, NumberTally()
    for span in spans:
        if not knows(span.dtype):
            continue
        counter = Counter(span.dtype, big_endian=big_endian)
        for piece in source.pieces(span.offset, span.bytes):
            counter.take(piece)
        checked += span.bytes
        tally.add(span.name, counter.nan, counter.inf)
    return Finding(checked, tally.numbers())


def count_nonfinite(data: bytes, dtype: str) -> Tuple[int, int]:
    """Count the elements whose exponent has all bits set: NaN, and infinity."""
    kind = _SAME.get(dtype, dtype)
    if kind in _BYTES:
        nans, infinities = _BYTES[kind]
        return sum(map(data.count, nans)), sum(map(data.count, infinities))
    width = _EXPONENTS[kind][0]
    whole = len(data) - len(data) % width
    if 1 not in data[width - 1 : whole : width].translate(_FULL[kind]):
        return 0, 0  # no number is that large: true of nearly every piece of a good file
    nan = inf = 0
    for at in range(0, whole, _BLOCK_BYTES):
        bad, infinite = _count_lanes(data[at : min(at + _BLOCK_BYTES, whole)], kind)
        nan, inf = nan + bad - infinite, inf + infinite
    return nan, inf


def _count_lanes(block: bytes, kind: str) -> Tuple[int, int]:
    """Treat the block as one number: a full exponent overflows into its sign's place when one is added.

    Infinity is the exponent alone: without it nothing is left that could overflow when all lower bits are added.
    """
    width, (mask, one, sign, low) = _EXPONENTS[kind][0], _LANES[kind]
    number = int.from_bytes(block, "little")
    over = ((number & mask) + one) & sign
    if not over:
        return 0, 0
    bad = over.to_bytes(_BLOCK_BYTES, "little")[width - 1 :: width].count(0x80)
    other = (((number & low) ^ mask) + low) & sign
    lanes = _BLOCK_BYTES // width  # those past a short block's end are zero, which is not infinity
    return bad, lanes - other.to_bytes(_BLOCK_BYTES, "little")[width - 1 :: width].count(0x80)


def _repeated(lane: int, width: int) -> int:
    return int.from_bytes(lane.to_bytes(width, "little") * (_BLOCK_BYTES // width), "little")


def _full(width: int, mask: int) -> bytes:
    top = mask >> 8 * (width - 1)
    return bytes(1 if byte & top == top else 0 for byte in range(256))


_FULL = {kind: _full(*shape) for kind, shape in _EXPONENTS.items()}
_LANES = {
    kind: tuple(_repeated(lane, width) for lane in (mask, mask & -mask, 1 << 8 * width - 1, (1 << 8 * width - 1) - 1))
    for kind, (width, mask) in _EXPONENTS.items()
}
