"""NumPy's arrays and scalars inside a pickle: shape and type proven against their bytes, numbers examined."""

from __future__ import annotations

from typing import Dict, List, Optional

from leasehold.kit.readers.base.count_nonfinite import Counter
from leasehold.kit.readers.base.result import NumberTally, Unreadable
from leasehold.kit.readers.pickles.numpy_types import Dtype, elements
from leasehold.kit.readers.pickles.pickle_ops import LongBytes
from leasehold.kit.readers.pickles.stand_ins import Buffer, Inert

_PIECE_BYTES = 1 << 20


class Arrays:
    """Counts of a pickle's arrays and their numbers."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = self.numel = self.unseen = self.unread_numbers = 0
        self.tally = NumberTally()

    def add(self, shape: object, dtype: object, data: object) -> None:
        """Add an array: its data must have the bytes that shape and type need."""
        numel, kind = elements(shape), dtype if isinstance(dtype, Dtype) else None
        self.count += 1
        if self.count > self._most:
            raise Unreadable("pickle holds more than %d arrays" % self._most)
        self.numel += numel
        held = _held(data)
        if (
            kind is not None
            and (held is not None or isinstance(data, list))
            and kind.has_objects != isinstance(data, list)
        ):
            raise Unreadable("an array of objects has bytes, or one of numbers a list: NumPy writes neither")
        if kind is None or kind.item_bytes is None or held is None:
            self.unseen += not isinstance(data, list)
            self.unread_numbers += kind is None or kind.may_be_nan
            return
        if numel * kind.item_bytes != len(held):
            raise Unreadable(
                "an array of %d elements of %d bytes has %d bytes of data" % (numel, kind.item_bytes, len(held))
            )
        self._look(kind, held)

    def _look(self, kind: Dtype, data: memoryview) -> None:
        """Count the numbers that are not finite."""
        if not kind.scanned:
            self.unread_numbers += kind.may_be_nan
            return
        counter = Counter(kind.scanned, big_endian=kind.big_endian)
        for at in range(0, len(data), _PIECE_BYTES):
            counter.take(data[at : at + _PIECE_BYTES])
        self.tally.add("arrays", counter.nan, counter.inf)


def _held(data: object) -> Optional[memoryview]:
    """Return the bytes that a pickle contains; None if it makes them by a call."""
    if isinstance(data, LongBytes):
        return data.whole
    if isinstance(data, Buffer):
        data = data.data
        return data.whole if isinstance(data, LongBytes) else memoryview(data)
    return memoryview(data) if isinstance(data, bytes) else None


class Array(Inert):
    """An array that receives its shape, type and bytes as its state."""

    __slots__ = ("_arrays", "_filled")

    def __init__(self, arrays: Arrays) -> None:
        super().__init__("numpy.ndarray")
        self._arrays, self._filled = arrays, False

    def set_state(self, state: object) -> None:
        """Read (version, shape, dtype, order, data)."""
        if self._filled:
            raise Unreadable("pickle sets the state of an array twice")
        if not isinstance(state, tuple) or len(state) != 5:
            raise Unreadable("pickle sets an array's state to something that is no state of it")
        self._filled = True
        self._arrays.add(state[1], state[2], state[4])


def unread_words(counts: Dict[str, int]) -> List[str]:
    """Describe each count that is not zero."""
    return ["%d %s" % (count, what) for what, count in counts.items() if count]
