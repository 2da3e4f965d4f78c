"""The list of a torch DCP folder: what was saved, and which range of which shard holds it.

torch reads this list with a bare `pickle.load`, so every name in it counts: DCP's own classes and plain data are
known, anything else is opaque.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from leasehold.kit.readers.base.result import Limits, Unreadable, legible
from leasehold.kit.readers.pickles.expansion import refuse_expansion
from leasehold.kit.readers.pickles.pickle_machine import run_pickle
from leasehold.kit.readers.pickles.stand_ins import Inert, Kept, Name
from leasehold.kit.readers.pickles.torch_names import DTYPE_BYTES, LAYOUTS, PLAIN, full_name

_DCP = "torch.distributed.checkpoint."
_SHARDS = "torch.distributed._shard.sharded_tensor.metadata."
_OWN = frozenset(
    [
        *(
            _DCP + "metadata." + name
            for name in (
                "Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata", "TensorProperties",
                "MetadataIndex", "StorageMeta", "_MEM_FORMAT_ENCODING",
            )
        ),
        _DCP + "filesystem._StorageInfo",
        _SHARDS + "TensorProperties",
        _SHARDS + "MEM_FORMAT_ENCODING",
        *("pathlib.%s" % name for name in ("PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath")),
        *("pathlib._local.%s" % name for name in ("PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath")),
    ]
)  # fmt: skip
_PROPERTIES = (_DCP + "metadata.TensorProperties", _SHARDS + "TensorProperties")
_MEMORY_FORMATS = (_DCP + "metadata._MEM_FORMAT_ENCODING", _SHARDS + "MEM_FORMAT_ENCODING")
_MAX_COMPARED = 1024  # chunks of one tensor that are compared with each other
_Sizes = Tuple[int, ...]


class Part(NamedTuple):
    """A range of a shard, and the saved value that it belongs to."""

    offset: int
    length: int
    name: str
    numel: Optional[int]  # None: not a tensor
    transformed: bool = False  # compressed or encrypted by a torch extension


class Listing(NamedTuple):
    """The contents of the list."""

    parts: Dict[str, List[Part]]  # by shard
    names: List[str]
    opaque: Tuple[str, ...]


def read_listing(data: bytes, limits: Limits) -> Listing:
    """Run the list's pickle inertly, and prove that the parts make up every value listed as saved."""
    world = _MetadataWorld(limits)
    top = _fields(run_pickle(data, world, limits), "Metadata")
    saved = _pairs(top.get("state_dict_metadata"), "state_dict_metadata")
    stored = _pairs(top.get("storage_data"), "storage_data")
    _check_paths(top.get("planner_data"), saved)
    if len(stored) > limits.max_dcp_parts or len(saved) > limits.max_dcp_parts:
        raise Unreadable(".metadata names more than %d parts" % limits.max_dcp_parts)
    places = _places(stored)
    parts: Dict[str, List[Part]] = {}
    for name, value in saved:
        if not isinstance(name, str):
            raise Unreadable(".metadata saves a value under something that is no name")
        for offsets, numel in _wanted(name, value):
            found = places.pop((name, offsets), None)
            if found is None:
                raise Unreadable(".metadata does not state where %s lies%s" % (legible(name), _at(offsets)))
            shard, offset, length, transformed = found
            parts.setdefault(shard, []).append(Part(offset, length, name, numel, transformed))
    if places:
        raise Unreadable(".metadata gives a place to %s, which was not saved" % legible(next(iter(places))[0]))
    return Listing(parts, [str(name) for name, _ in saved], tuple(sorted(world.opaque)))


class _MetadataWorld:
    """Answers the requests of DCP's list, and keeps the values."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.opaque: Set[str] = set()

    def name(self, module: str, name: str) -> Name:
        """Stand in for a global; one that is neither DCP's nor plain data is recorded as opaque."""
        path = full_name(module, name)
        if path not in _OWN and path not in PLAIN and len(self.opaque) < self._limits.max_opaque:
            self.opaque.add(legible(path, 200))
        return Name(path)

    def call(self, called: Name, arguments: Tuple[object, ...]) -> object:
        """Make an object that keeps its arguments; a torch.Size is the tuple of its sizes."""
        if called.path == "torch.Size" and len(arguments) == 1 and isinstance(arguments[0], tuple):
            return arguments[0]
        refuse_expansion(called.path, arguments)
        if called.path == "torch.serialization._get_layout" and not all(_is_layout(each) for each in arguments):
            raise Unreadable(".metadata names a layout that torch does not know")
        if called.path in _MEMORY_FORMATS and (len(arguments) != 1 or arguments[0] not in (0, 1, 2)):
            raise Unreadable(".metadata names a memory format that torch does not know")
        if called.path in ("builtins.dict", "collections.OrderedDict") and not arguments:
            return Kept("dict")
        return Kept(called.path, arguments)

    def change(self, named: Name) -> None:
        """Refuse to change a known class; the others are opaque already."""
        if named.path in _OWN or named.path in PLAIN:
            raise Unreadable(".metadata changes %s itself: the state of a class is no data" % legible(named.path))

    def persistent(self, identity: object) -> object:
        """Refuse an outside object: there are none."""
        raise Unreadable(".metadata refers to an object outside of it")

    def make(self, kind: str) -> Inert:
        """Make a dict that keeps its values."""
        return Kept(kind)

    def see_number(self, value: float) -> None:
        """Ignore a number; it does not belong to the results."""

    def name_nan(self, key: object) -> None:
        """Ignore the key of a number that is NaN."""


def _is_layout(value: object) -> bool:
    return isinstance(value, str) and value in LAYOUTS  # not str(value): for nested lists it is unbounded


_Place = Tuple[str, int, int, bool]
_Index = Tuple[str, Optional[_Sizes]]


def _places(stored: List[Tuple[object, object]]) -> Dict[_Index, _Place]:
    """Return the place of each value, or of each chunk of a tensor."""
    places: Dict[_Index, _Place] = {}
    for key, value in stored:
        index, place = _fields(key, "MetadataIndex"), _fields(value, "_StorageInfo")
        name, raw = index.get("fqn"), index.get("offset")
        if not isinstance(name, str):
            raise Unreadable(".metadata gives a place to something without a name")
        at = (name, None if raw is None else _naturals(raw, name))
        if at in places:
            raise Unreadable(".metadata gives %s two places%s" % (legible(name), _at(at[1])))
        shard, offset, length = (place.get(field) for field in ("relative_path", "offset", "length"))
        if not isinstance(shard, str) or not _is_natural(offset) or not _is_natural(length):
            raise Unreadable(".metadata describes the place of %s by no name and numbers" % legible(name))
        assert isinstance(offset, int) and isinstance(length, int)
        if offset + length > 2**62:
            raise Unreadable(".metadata gives %s an impossible place" % legible(shard))
        places[at] = (shard, offset, length, bool(place.get("transform_descriptors")))
    return places


def _wanted(name: str, value: object) -> List[Tuple[Optional[_Sizes], Optional[int]]]:
    """Return the offsets of each chunk of a saved value, and its count of numbers."""
    if isinstance(value, Kept) and value.of == _DCP + "metadata.BytesStorageMetadata":
        return [(None, None)]
    facts = _fields(value, "TensorStorageMetadata")
    _check_properties(name, facts.get("properties"))
    size, chunks = _naturals(facts.get("size"), name), facts.get("chunks")
    if not isinstance(chunks, list):
        raise Unreadable(".metadata lists no chunks of %s" % legible(name))
    boxes = []
    for chunk in chunks:
        fields = _fields(chunk, "ChunkStorageMetadata")
        boxes.append((_naturals(fields.get("offsets"), name), _naturals(fields.get("sizes"), name)))
    _check_cover(name, size, boxes)
    return [(offsets, _volume(sizes)) for offsets, sizes in boxes]


def _check_properties(name: str, value: object) -> None:
    """Check torch's five tensor properties beside the size: torch unpacks them while it reads the list."""
    if value is None:
        return
    state = value.state if isinstance(value, Kept) and value.of in _PROPERTIES else None
    if not isinstance(state, tuple) or len(state) != 5:
        raise Unreadable(".metadata describes the numbers of %s by something else than DCP does" % legible(name))
    dtype, layout, wants_grad, memory_format, pinned = state
    known = (
        isinstance(dtype, Name) and dtype.path.partition("torch.")[2] in DTYPE_BYTES,
        isinstance(layout, Kept) and layout.of == "torch.serialization._get_layout",
        isinstance(memory_format, Kept) and memory_format.of in _MEMORY_FORMATS,
        type(wants_grad) is bool and type(pinned) is bool,
    )
    if not all(known):
        raise Unreadable(".metadata gives %s no known type, layout or memory format" % legible(name))


def _check_paths(planned: object, saved: List[Tuple[object, object]]) -> None:
    """Check the path to each value in the nested state against its name, if torch's own planner saved it."""
    if not isinstance(planned, Kept) or planned.of != "dict":
        return
    for name, path in planned.pairs:
        if not isinstance(path, tuple) or not all(type(step) is str or _is_natural(step) for step in path):
            continue
        if path and (not isinstance(name, str) or ".".join(map(str, path)) != name):
            raise Unreadable(".metadata gives a value a path that does not match its name: %s" % legible(str(path[-1])))
    ways = {name for name, _ in planned.pairs if isinstance(name, str)}
    lost = [name for name, _ in saved if isinstance(name, str) and name not in ways] if planned.pairs else []
    if lost:
        raise Unreadable(".metadata gives no path to %s" % legible(lost[0]))


def _check_cover(name: str, size: _Sizes, boxes: List[Tuple[_Sizes, _Sizes]]) -> None:
    """Prove that the chunks fill the tensor: each inside it, none overlapping, and together as large as it is."""
    for offsets, sizes in boxes:
        if not len(offsets) == len(sizes) == len(size):
            raise Unreadable(".metadata gives %s a chunk of another number of dimensions" % legible(name))
        if any(begin + length > whole for begin, length, whole in zip(offsets, sizes, size)):
            raise Unreadable(".metadata gives %s a chunk that reaches past its end" % legible(name))
    total = sum(_volume(sizes) for _, sizes in boxes)
    if total != _volume(size):
        raise Unreadable("the chunks of %s hold %d numbers of its %d" % (legible(name), total, _volume(size)))
    if len(boxes) <= _MAX_COMPARED and any(_overlap(a, b) for n, a in enumerate(boxes) for b in boxes[:n]):
        raise Unreadable("two chunks of %s lie over each other" % legible(name))


def _overlap(one: Tuple[_Sizes, _Sizes], other: Tuple[_Sizes, _Sizes]) -> bool:
    return bool(one[0]) and all(
        max(a, b) < min(a + length_a, b + length_b) for a, length_a, b, length_b in zip(*one, *other)
    )


def _fields(value: object, kind: str) -> Dict[str, object]:
    """Return the fields of one of DCP's dataclasses."""
    if not isinstance(value, Kept) or value.of not in _OWN or value.of.rpartition(".")[2] != kind:
        raise Unreadable(".metadata has something else where DCP writes a %s" % kind)
    state = value.state
    if not isinstance(state, Kept) or state.of != "dict" or value.arguments:
        raise Unreadable(".metadata gives a %s no fields" % kind)
    fields: Dict[str, object] = {}
    for key, item in state.pairs:
        if not isinstance(key, str) or key in fields:
            raise Unreadable(".metadata gives a %s a field twice, or one without a name" % kind)
        fields[key] = item
    return fields


def _pairs(value: object, what: str) -> List[Tuple[object, object]]:
    if not isinstance(value, Kept) or value.of != "dict" or not value.pairs:
        raise Unreadable(".metadata has no %s" % what)
    return value.pairs


def _naturals(value: object, name: str) -> _Sizes:
    if not isinstance(value, tuple) or len(value) > 64 or not all(_is_natural(number) for number in value):
        raise Unreadable(".metadata describes %s by sizes that are no natural numbers" % legible(name))
    return value


def _is_natural(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _volume(sizes: _Sizes) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def _at(offsets: Optional[_Sizes]) -> str:
    return " (from %s)" % ", ".join(map(str, offsets[:8])) if offsets else ""
