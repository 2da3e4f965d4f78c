"""Calls that turn a few bytes of a pickle into unbounded memory: no writer of plain data makes them."""

from __future__ import annotations

from typing import Tuple

from leasehold.kit.readers.base.result import Unreadable, legible

from .stand_ins import Inert
from .torch_names import NUMPY_VALUES, STORAGE_BYTES

_MOST_ITEMS = 1 << 20
# Called with a size, or with a tuple of sizes, these allocate memory for all of it at once.
_BY_SIZE = frozenset(
    [
        *("builtins.bytes", "builtins.bytearray", "numpy.ndarray", "torch.Tensor", "torch.storage.TypedStorage"),
        *(path for path in NUMPY_VALUES if path.endswith("_reconstruct")),
        *STORAGE_BYTES,
    ]
)
_RANGES = ("range", "builtins.range")


def refuse_expansion(path: str, arguments: Tuple[object, ...]) -> None:
    """Refuse a call whose result is large although nothing large is in the file."""
    if any(isinstance(value, Inert) and value.of in _RANGES for value in arguments):
        raise Unreadable("pickle has %s count through a range: nothing that is saved needs that" % legible(path))
    if path not in _BY_SIZE:
        return
    for value in arguments:
        items = 1
        for size in value if isinstance(value, tuple) else (value,):
            items *= max(1, size) if type(size) is int else 1
            if items > _MOST_ITEMS:
                raise Unreadable("pickle asks %s for memory that the file does not fill" % legible(path))
