"""What a torch pickle may ask for: storages that exist, tensors inside them, inert stand-ins for the rest."""

from __future__ import annotations

from typing import Callable, Dict, List, Set, Tuple

from leasehold.kit.readers.inert import Inert, Name
from leasehold.kit.readers.reading import Limits, Numbers, NumberTally, Unreadable, legible
from leasehold.kit.readers.torch_names import DTYPE_BYTES, PACKED_ELEMENTS, PLAIN, STORAGE_BYTES, full_name

_MAX_NDIM = 64
_MAX_SIZE = 2**63
_DICTS = {"builtins.dict", "collections.OrderedDict", "collections.defaultdict", "collections.Counter"}
_Arguments = Tuple[object, ...]


class Storage(Inert):
    """A storage whose record was found to have the right size."""

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
    """Answer a torch pickle's requests and remember what was seen."""

    def __init__(self, record_bytes: Dict[str, int], limits: Limits) -> None:
        self._record_bytes = record_bytes  # by storage key
        self._limits = limits
        self.opaque: Set[str] = set()
        self.used_keys: Set[str] = set()
        self.storage_types: Dict[str, str] = {}
        self.tensors = 0
        self.numel = 0
        self.without_data = 0
        self.more_opaque = False
        self.labels: Dict[str, str] = {}  # storage -> the first name that a dict gives a tensor of it
        self.nan_keys: Dict[str, int] = {}

    def name(self, module: str, name: str) -> Name:
        """Stand in for a global; one that is no plain data is remembered as opaque."""
        path = full_name(module, name)
        if path not in PLAIN and path not in _CALLS:
            if len(self.opaque) < self._limits.max_opaque:
                self.opaque.add(legible(path, 200))
            else:
                self.more_opaque = True
        return Name(path)

    def call(self, called: Name, arguments: _Arguments) -> object:
        """Check what rebuilds a tensor; everything else becomes an inert value."""
        rebuild = _CALLS.get(called.path)
        if rebuild is not None:
            return rebuild(self, arguments)
        if called.path in _DICTS:
            return _filled_dict(arguments)
        if called.path == "torch.Size" and len(arguments) == 1 and isinstance(arguments[0], tuple):
            return arguments[0]
        return Inert(called.path.rpartition(".")[2] if called.path in PLAIN else called.path)

    def persistent(self, identity: object) -> object:
        """Give the storage that ('storage', type, key, location, numel) means."""
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
        self.storage_types[key] = path
        return Storage(count * PACKED_ELEMENTS.get(path, 1), element_bytes, key)

    def saw_nan(self, key: object) -> None:
        """Count a plain number that is NaN, by its key."""
        name = legible(key) if isinstance(key, str) else "a number"
        if name in self.nan_keys or len(self.nan_keys) < self._limits.max_opaque:
            self.nan_keys[name] = self.nan_keys.get(name, 0) + 1

    def label(self, key: str) -> str:
        """Name a storage by a tensor of it, where a dict names one."""
        return self.labels.get(key) or "storage %s" % key

    def numbers(self, scanned: Numbers) -> Numbers:
        """Add the plain numbers that are NaN to what the scan of the storages found, and say what it left out."""
        untyped = sum(path.endswith("UntypedStorage") for path in self.storage_types.values())
        where = (*self.nan_keys.items(), *scanned.where)
        more = scanned.more + max(0, len(where) - NumberTally.MOST_SHOWN)
        unread = "%d storages of no known type" % untyped if untyped else ""
        nan = scanned.nan + sum(self.nan_keys.values())
        return Numbers(nan, scanned.inf, where[: NumberTally.MOST_SHOWN], more, unread)

    def add_tensor(self, storage: object, offset: object, size: object, stride: object, item_bytes: int) -> Tensor:
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
    return world.add_tensor(storage, offset, size, stride, _dtype_bytes(arguments[6]))


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
                made.set_key(pair[0])
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
