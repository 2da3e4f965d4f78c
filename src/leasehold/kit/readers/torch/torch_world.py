"""Answers for a torch pickle: storages that exist, tensors inside them, inert stand-ins for the rest."""

from __future__ import annotations

from typing import Callable, Dict, List, Set, Tuple

from leasehold.kit.readers.base.result import Limits, Numbers, NumberTally, Unreadable, legible
from leasehold.kit.readers.pickles.expansion import refuse_expansion
from leasehold.kit.readers.pickles.numpy_types import Entries, dtype_of
from leasehold.kit.readers.pickles.stand_ins import Inert, Name
from leasehold.kit.readers.pickles.torch_names import (
    DTYPE_BYTES,
    FLOATS,
    NUMPY_VALUES,
    PACKED_ELEMENTS,
    PLAIN,
    STORAGE_BYTES,
    STORAGE_DTYPE,
    full_name,
)

_MAX_NDIM = 64
_MAX_SIZE = 2**63
_DICTS = {"builtins.dict", "collections.OrderedDict", "collections.defaultdict", "collections.Counter"}
_Arguments = Tuple[object, ...]


class Storage(Inert):
    """A storage whose record has the right size."""

    __slots__ = ("element_bytes", "key", "numel")

    def __init__(self, numel: int, element_bytes: int, key: str = "") -> None:
        super().__init__("storage")
        self.numel = numel
        self.element_bytes = element_bytes
        self.key = key


class Tensor(Inert):
    """A tensor, proven to lie inside its storage."""

    __slots__ = ("_labels", "_storage")

    def __init__(self, storage: str, labels: Dict[str, str]) -> None:
        super().__init__("tensor")
        self._storage, self._labels = storage, labels

    def called(self, key: object) -> None:
        """Remember the first name that a dict gives it, for its storage."""
        if isinstance(key, (str, int)) and self._storage:
            self._labels.setdefault(self._storage, legible(key if isinstance(key, str) else "%d" % (key % 2**64)))


class TorchWorld:
    """Answers a torch pickle's requests and records what was seen."""

    def __init__(self, record_bytes: Dict[str, int], limits: Limits) -> None:
        self._record_bytes = record_bytes  # by storage key
        self._limits = limits
        self.opaque: Set[str] = set()
        self.used_keys: Set[str] = set()
        self.storage_types: Dict[str, str] = {}
        self.views: Dict[str, Set[str]] = {}  # storage without a type -> the types of the tensors over it
        self.tensors = 0
        self.numel = 0
        self.without_data = 0
        self.more_opaque = False
        self.labels: Dict[str, str] = {}  # storage -> the first name that a dict gives a tensor of it
        self.plain_numbers = self.plain_nan = self.plain_inf = self.numpy_values = 0
        self._bad_keys: Dict[str, int] = {}

    def name(self, module: str, name: str) -> Name:
        """Stand in for a global; one that is not plain data is recorded as opaque."""
        path = full_name(module, name)
        if path not in PLAIN and path not in _CALLS:
            if len(self.opaque) < self._limits.max_opaque:
                self.opaque.add(legible(path, 200))
            else:
                self.more_opaque = True
        return Name(path)

    def call(self, called: Name, arguments: _Arguments) -> object:
        """Check a call that rebuilds a tensor; everything else becomes an inert value."""
        rebuild = _CALLS.get(called.path)
        if rebuild is not None:
            return rebuild(self, arguments)
        if called.path == "numpy.dtype":
            return dtype_of(arguments)
        refuse_expansion(called.path, arguments)
        if called.path in _DICTS:
            return _filled_dict(arguments)
        self.numpy_values += called.path in NUMPY_VALUES
        if called.path == "torch.Size" and len(arguments) == 1 and isinstance(arguments[0], tuple):
            return arguments[0]
        return Inert(called.path.rpartition(".")[2] if called.path in PLAIN else called.path)

    def change(self, named: Name) -> None:
        """Refuse to change what stands for plain data: a loading process would continue with the changed class."""
        if named.path in PLAIN or named.path in _CALLS:
            raise Unreadable(f"pickle changes {legible(named.path)} itself: the state of a class is no data")

    def persistent(self, identity: object) -> object:
        """Return the storage that ('storage', type, key, location, numel) means."""
        if not isinstance(identity, tuple) or len(identity) != 5 or identity[0] != "storage":
            raise Unreadable("pickle refers to an outside object that is not ('storage', type, key, location, numel)")
        _, kind, key, location, numel = identity
        path = kind.path if isinstance(kind, Name) else ""
        if path not in STORAGE_BYTES or not isinstance(key, str) or not isinstance(location, str):
            raise Unreadable(f"pickle refers to a storage of unknown type {legible(path or repr(type(kind)))}")
        count, element_bytes = _natural(numel, "storage numel"), STORAGE_BYTES[path]
        found = self._record_bytes.get(key)
        if found is None:
            raise Unreadable(f"storage {legible(key)!r} is named by the pickle and is not in the archive")
        if found != count * element_bytes:
            raise Unreadable(
                f"storage {legible(key)!r}: {count} elements of {path} need {count * element_bytes} bytes,"
                f" its record has {found}"
            )
        self.used_keys.add(key)
        self.take_type(key, path)
        return Storage(count * PACKED_ELEMENTS.get(path, 1), element_bytes, key)

    def take_type(self, key: str, path: str) -> None:
        """Record a storage's type; torch uses the first one for every tensor over it."""
        if self.storage_types.setdefault(key, path) != path:
            raise Unreadable(f"storage {legible(key)} is named twice with different types")

    def make(self, kind: str) -> Inert:
        """Make an empty dict."""
        return Entries(kind)

    def see_number(self, value: float) -> None:
        """Count a plain number, and whether it is finite."""
        self.plain_numbers += 1
        if value - value != 0:
            self.plain_nan += value != value
            self.plain_inf += value == value  # not counted as bad: schedulers keep such a bound

    def name_nan(self, key: object) -> None:
        """Record the key of a plain number that is NaN."""
        name = legible(key) if isinstance(key, str) else "a number"
        if name in self._bad_keys or len(self._bad_keys) < self._limits.max_opaque:
            self._bad_keys[name] = self._bad_keys.get(name, 0) + 1

    def dtype(self, key: str) -> str:
        """Return the type of a storage's elements; empty when none or several are known."""
        known = STORAGE_DTYPE.get(self.storage_types.get(key, ""))
        views = self.views.get(key, ())
        return known or (next(iter(views)) if len(views) == 1 else "")

    def float_dtype(self, key: str) -> str:
        """Return the type of a storage's floating-point numbers by the name that the scan uses; else empty."""
        return FLOATS.get(self.dtype(key), "")

    def label(self, key: str) -> str:
        """Name a storage by one of its tensors, if a dict names one."""
        return self.labels.get(key) or "storage %s" % key

    def numbers(self, scanned: Numbers) -> Numbers:
        """Add the plain numbers that are NaN to the scan result of the storages, and name what was not examined."""
        where = (*self._plain_where(), *scanned.where)
        more = scanned.more + max(0, len(where) - NumberTally.MOST_SHOWN)
        return Numbers(scanned.nan + self.plain_nan, scanned.inf, where[: NumberTally.MOST_SHOWN], more, self._unread())

    @property
    def plain(self) -> Tuple[int, int]:
        """Return how many plain floating-point numbers were examined, and how many of them are infinite."""
        return self.plain_numbers, self.plain_inf

    def _plain_where(self) -> List[Tuple[str, int]]:
        nameless = self.plain_nan - sum(self._bad_keys.values())
        return [*self._bad_keys.items(), *([("plain numbers", nameless)] if nameless > 0 else [])]

    def _unread(self) -> str:
        untyped = sum(not self.dtype(key) for key in self.storage_types)
        counts = ((untyped, "storages of no known type"), (self.numpy_values, "NumPy values"))
        return ", ".join("%d %s" % (count, what) for count, what in counts if count)

    def add_tensor(self, storage: object, offset: object, size: object, stride: object, item_bytes: int) -> Inert:
        """Count a tensor after proving that every element lies in the storage."""
        if not isinstance(storage, Storage):
            raise Unreadable("pickle rebuilds a tensor from something that is not a storage")
        sizes, strides = _naturals(size, "sizes"), _naturals(stride, "strides")
        if len(sizes) != len(strides):
            raise Unreadable(f"a tensor has {len(sizes)} sizes and {len(strides)} strides")
        last = _natural(offset, "storage offset") + sum((n - 1) * step for n, step in zip(sizes, strides))
        room = storage.numel if not item_bytes else storage.numel * storage.element_bytes // item_bytes
        if 0 not in sizes and last >= room:
            raise Unreadable(
                f"a tensor of sizes {sizes}, strides {strides} and offset {offset} reaches element {last}"
                f" of a storage of {room}"
            )
        return self.count_tensor(sizes, storage.key)

    def count_tensor(self, sizes: List[int], storage: str = "") -> Tensor:
        """Count a tensor of these sizes."""
        numel = 1
        for size in sizes:
            numel *= size
        if numel >= _MAX_SIZE:
            raise Unreadable("a tensor has more than 2**63 elements, so torch refuses it")
        self.tensors += 1
        self.numel += numel
        return Tensor(storage, self.labels)


def _rebuild_tensor(world: TorchWorld, arguments: _Arguments) -> object:
    _at_least(arguments, 4, "_rebuild_tensor")
    storage, offset, size, stride = arguments[:4]
    return world.add_tensor(storage, offset, size, stride, 0)


def _rebuild_tensor_v3(world: TorchWorld, arguments: _Arguments) -> object:
    _at_least(arguments, 7, "_rebuild_tensor_v3")
    storage, offset, size, stride = arguments[:4]
    item_bytes = _dtype_bytes(arguments[6])
    if isinstance(storage, Storage) and isinstance(arguments[6], Name):
        world.views.setdefault(storage.key, set()).add(arguments[6].path[len("torch.") :])
    return world.add_tensor(storage, offset, size, stride, item_bytes)


def _rebuild_meta(world: TorchWorld, arguments: _Arguments) -> object:
    _at_least(arguments, 4, "_rebuild_meta_tensor_no_storage")
    _dtype_bytes(arguments[0])
    world.without_data += 1
    return world.count_tensor(_naturals(arguments[1], "sizes"))


def _rebuild_parameter(world: TorchWorld, arguments: _Arguments) -> object:
    _at_least(arguments, 3, "_rebuild_parameter")
    if not isinstance(arguments[0], Inert):
        raise Unreadable("pickle rebuilds a parameter from something that is not a tensor")
    return arguments[0]


def _rebuild_from_type(world: TorchWorld, arguments: _Arguments) -> object:
    """Rebuild a tensor subclass by the function it names; never by itself, so this does not recurse."""
    _at_least(arguments, 4, "_rebuild_from_type_v2")
    function, _, inner = arguments[:3]
    if not isinstance(function, Name) or not isinstance(inner, tuple) or function.path in _FROM_TYPE:
        raise Unreadable("pickle rebuilds a tensor subclass by something that is not a rebuild function")
    return world.call(function, inner)


_FROM_TYPE = ("torch._tensor._rebuild_from_type_v2", "torch._tensor._rebuild_from_type")
_CALLS: Dict[str, Callable[[TorchWorld, _Arguments], object]] = {
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch._utils._rebuild_qtensor": _rebuild_tensor,
    "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
    **dict.fromkeys(_FROM_TYPE, _rebuild_from_type),
}


def _filled_dict(arguments: _Arguments) -> Inert:
    made = Inert("dict")
    for initial in arguments:
        if isinstance(initial, Inert) and initial.keys:
            made.keys = list(initial.keys)
        for pair in initial if isinstance(initial, list) else ():  # how Python 2 wrote an OrderedDict
            if isinstance(pair, (list, tuple)) and len(pair) == 2:
                made.set_item(*pair)
    return made


def _at_least(arguments: _Arguments, count: int, function: str) -> None:
    if len(arguments) < count:
        raise Unreadable(f"pickle calls {function} with {len(arguments)} arguments; it takes {count} or more")


def _dtype_bytes(dtype: object) -> int:
    path = dtype.path if isinstance(dtype, Name) else ""
    known = DTYPE_BYTES.get(path[len("torch.") :]) if path.startswith("torch.") else None
    if known is None:
        raise Unreadable(f"a tensor has dtype {legible(path or repr(type(dtype)))}, which is unknown")
    return known


def _naturals(value: object, what: str) -> List[int]:
    if not isinstance(value, (tuple, list)) or len(value) > _MAX_NDIM:
        raise Unreadable(f"a tensor's {what} are not a tuple of at most {_MAX_NDIM} numbers")
    return [_natural(number, what) for number in value]


def _natural(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MAX_SIZE:
        seen = value if isinstance(value, int) and abs(value) < 2**64 else type(value).__name__
        raise Unreadable(f"a tensor's {what} should be natural numbers, saw {seen}")
    return value
