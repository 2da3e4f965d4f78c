"""Allow a plain pickle plain data and NumPy's arrays; everything else it names is opaque and stays inert."""

from __future__ import annotations

from typing import Dict, List, Tuple

from leasehold.kit.readers.base.result import Limits, Numbers, Unreadable
from leasehold.kit.readers.pickles.stand_ins import Inert, Name
from leasehold.kit.readers.torch.torch_world import Storage, TorchWorld

from .numpy_values import Array, Arrays, unread_words

_ARRAY = tuple("numpy.%s.multiarray._reconstruct" % core for core in ("core", "_core"))
_SCALAR = tuple("numpy.%s.multiarray.scalar" % core for core in ("core", "_core"))
_BUFFER = tuple("numpy.%s.numeric._frombuffer" % core for core in ("core", "_core"))
_UNPROVEN = "torch tensors, which are torch files of their own inside the pickle"
_JOBLIB = "joblib.numpy_pickle.NumpyArrayWrapper"


class PickleWorld(TorchWorld):
    """Answers a plain pickle's requests; it can refer to nothing outside itself."""

    def __init__(self, limits: Limits) -> None:
        super().__init__({}, limits)
        self.arrays = Arrays(limits.max_items)
        self._unproven = 0

    def name(self, module: str, name: str) -> Name:
        """Refuse joblib's arrays: their bytes lie between the operations, where pickle.load would run them."""
        if "%s.%s" % (module, name) == _JOBLIB:
            raise Unreadable("was written by joblib, whose arrays no pickle.load reads; `loads: joblib` reads it")
        return super().name(module, name)

    def persistent(self, identity: object) -> object:
        """Refuse: a plain pickle has no outside objects."""
        raise Unreadable("pickle refers to an object outside of it, which pickle.load refuses")

    def call(self, called: Name, arguments: Tuple[object, ...]) -> object:
        """Make arrays and dtypes that are proven; everything else as in a torch pickle."""
        if called.path in _ARRAY:
            return Array(self.arrays)
        if called.path in _SCALAR and len(arguments) == 2:
            self._scalar(arguments)
            return Inert("numpy.generic")
        if called.path in _BUFFER and len(arguments) == 4:
            self.arrays.add(arguments[2], arguments[1], arguments[0])
            return Inert("numpy.ndarray")
        return super().call(called, arguments)

    def add_tensor(self, storage: object, offset: object, size: object, stride: object, item_bytes: int) -> Inert:
        """Count a tensor; its storage lies in a torch file of its own, which only torch could open."""
        if isinstance(storage, Storage):
            return super().add_tensor(storage, offset, size, stride, item_bytes)
        self._unproven += 1
        return Inert("torch.Tensor")

    def _scalar(self, arguments: Tuple[object, ...]) -> None:
        count = self.arrays.count
        self.arrays.add((), *arguments)
        self.arrays.count, self.arrays.numel = count, self.arrays.numel - 1

    def all_numbers(self) -> Numbers:
        """Return the counts for arrays and plain numbers, and what was not examined."""
        seen = self.numbers(self.arrays.tally.numbers())
        left: Dict[str, int] = {
            "NumPy arrays or values of types that are not counted": self.arrays.unread_numbers,
            _UNPROVEN: self._unproven,
        }
        return Numbers(seen.nan, seen.inf, seen.where, seen.more, ", ".join(unread_words(left)))

    def notes(self) -> List[str]:
        """Describe which arrays were proven and which were not."""
        found = unread_words({"arrays whose bytes are not compared with their shape": self.arrays.unseen})
        if self.plain_numbers:
            infinite = " (%d of them infinite, as bounds are)" % self.plain_inf if self.plain_inf else ""
            found.append("%d plain floating-point numbers%s" % (self.plain_numbers, infinite))
        if self.more_opaque:
            found.append("only %d of the opaque classes are listed" % len(self.opaque))
        return found
