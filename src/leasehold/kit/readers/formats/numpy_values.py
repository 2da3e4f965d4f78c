"""NumPy's arrays and scalars inside a pickle: shape and type proven against their bytes, numbers looked at."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from leasehold.kit.readers.finite import count_nonfinite
from leasehold.kit.readers.inert import Inert
from leasehold.kit.readers.npy import _FLOATS, _SIZES
from leasehold.kit.readers.reading import NumberTally, Unreadable, legible

_MAX_NDIM = 64
_MAX_SIZE = 2**63
_VARIABLE = {"S": 1, "a": 1, "U": 4, "V": 1}


class Dtype(Inert):
    """A dtype: its letter and width, and the byte order that its state sets."""

    __slots__ = ("big_endian", "item_bytes", "kind", "letters")

    def __init__(self, letters: str) -> None:
        super().__init__("numpy.dtype")
        self.letters = letters
        kind, width = letters[:1], letters[1:]
        self.kind = {"?": "b"}.get(kind, kind)
        self.big_endian = False
        self.item_bytes = _item_bytes(kind, width)

    def set_state(self, state: object) -> None:
        """Take the byte order, and the size of a type whose width is not in its name."""
        if not isinstance(state, tuple) or len(state) < 8:
            raise Unreadable("pickle sets a NumPy dtype's state to something that is no state of it")
        self.big_endian = state[1] == ">"
        if self.kind in _VARIABLE and isinstance(state[5], int) and 0 <= state[5] < 2**31:
            self.item_bytes = state[5]

    @property
    def scanned(self) -> str:
        """Return the name under which its numbers can be counted; empty for another type."""
        return _FLOATS.get(self.letters, "")

    @property
    def may_be_nan(self) -> bool:
        """Whether it can hold NaN, or objects that can."""
        return self.kind in ("f", "c", "O", "V") or self.item_bytes is None


class Arrays:
    """What was seen of a pickle's arrays."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = self.numel = self.unseen = self.unread_numbers = 0
        self.tally = NumberTally()

    def add(self, shape: object, dtype: object, data: object) -> None:
        """Take an array: its data must have the bytes that shape and type need."""
        numel, kind = elements(shape), dtype if isinstance(dtype, Dtype) else None
        self.count += 1
        if self.count > self._most:
            raise Unreadable("pickle holds more than %d arrays" % self._most)
        self.numel += numel
        if kind is None or kind.item_bytes is None or not isinstance(data, bytes):
            self.unseen += not isinstance(data, list)
            self.unread_numbers += kind is None or kind.may_be_nan
            return
        if numel * kind.item_bytes != len(data):
            raise Unreadable(
                "an array of %d elements of %d bytes has %d bytes of data" % (numel, kind.item_bytes, len(data))
            )
        self.look(kind, data)

    def look(self, kind: Dtype, data: bytes, name: str = "arrays") -> None:
        """Count the numbers that are not finite."""
        if kind.scanned:
            nan, inf = count_nonfinite(data[::-1] if kind.big_endian else data, kind.scanned)
            self.tally.add(name, nan, inf)
        else:
            self.unread_numbers += kind.may_be_nan


class Array(Inert):
    """An array that gets its shape, type and bytes by its state."""

    __slots__ = ("_arrays", "_filled")

    def __init__(self, arrays: Arrays) -> None:
        super().__init__("numpy.ndarray")
        self._arrays, self._filled = arrays, False

    def set_state(self, state: object) -> None:
        """Take (version, shape, dtype, order, data)."""
        if self._filled:
            raise Unreadable("pickle sets the state of an array twice")
        if not isinstance(state, tuple) or len(state) != 5:
            raise Unreadable("pickle sets an array's state to something that is no state of it")
        self._filled = True
        self._arrays.add(state[1], state[2], state[4])


def dtype_of(arguments: Tuple[object, ...]) -> Inert:
    """Return the dtype that a call of numpy.dtype makes."""
    letters = arguments[0] if arguments else None
    if not isinstance(letters, str) or not letters or len(letters) > 12:
        return Inert("numpy.dtype")
    return Dtype(letters)


def elements(shape: object) -> int:
    """Multiply the sizes of a shape."""
    if not isinstance(shape, tuple) or len(shape) > _MAX_NDIM:
        raise Unreadable("an array's shape is no tuple of at most %d sizes" % _MAX_NDIM)
    numel = 1
    for size in shape:
        if type(size) is not int or not 0 <= size < _MAX_SIZE:
            seen = legible(repr(size)) if isinstance(size, int) and abs(size) < 2**64 else type(size).__name__
            raise Unreadable("an array's shape holds %s, which is no size" % seen)
        numel = min(numel * size, _MAX_SIZE)
    return numel


def _item_bytes(kind: str, width: str) -> Optional[int]:
    """Return how many bytes an element has; None where the name does not say, as for objects."""
    if kind == "b" and width == "1" or kind == "?":
        return 1
    if not width.isdigit() or len(width) > 9:
        return None
    if kind in _VARIABLE:
        return int(width) * _VARIABLE[kind]
    return int(width) if int(width) in _SIZES.get(kind, ()) else None


def unread_words(counts: Dict[str, int]) -> List[str]:
    """Say each count that is not zero."""
    return ["%d %s" % (count, what) for what, count in counts.items() if count]
