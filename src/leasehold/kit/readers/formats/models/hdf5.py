"""HDF5 (.h5, Keras weights): groups, datasets, their types, shapes and places; contiguous floats are examined."""

from __future__ import annotations

from collections import deque
from typing import Deque, Dict, List, NamedTuple, Optional, Set, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.count_nonfinite import Counter
from leasehold.kit.readers.base.result import KeyList, Limits, Numbers, NumberTally, Reading, Unreadable, legible

from .hdf5_objects import NOWHERE, File, Message
from .keras_config import opaque_layers

_MOST_OBJECTS = 500_000
_MOST_RANK = 32
_MOST_CONFIG_BYTES = 64 << 20
_SPACE, _LINKS, _TYPE, _LINK, _OUTSIDE, _LAYOUT, _FILTERS, _ATTRIBUTE, _TABLE, _ATTRIBUTES = (
    1,
    2,
    3,
    6,
    7,
    8,
    11,
    12,
    17,
    21,
)
_COMPACT, _CONTIGUOUS, _CHUNKED = 0, 1, 2
_CONFIG = b"model_config\0"
# Bytes and exponent bits of a float -> the name by which its numbers are counted.
_FLOATS = {(2, 5): "F16", (2, 8): "BF16", (4, 8): "F32", (8, 11): "F64"}
_MAY_BE_NAN = (1, 6, 9, 10)  # floats, records, lists, arrays


class _Type(NamedTuple):
    kind: int
    bytes: int
    dtype: str
    big_endian: bool


def read_hdf5(source: Source, limits: Limits) -> Reading:
    """Walk every group from the root; every object is read once, whatever links lead to it."""
    walk = _Walk(File(source), source, limits)
    walk.all()
    notes = ["superblock version %d, %d groups, %d datasets" % (walk.version, walk.groups, walk.datasets)]
    notes += ["%d %s" % (count, what) for what, count in walk.unread.items()]
    if walk.file_end < source.size:
        notes.append("%d bytes behind the end that its superblock gives" % (source.size - walk.file_end))
    said = (
        *notes,
        "attributes are not looked at; data has no checksum of ours: damage inside numbers is unseen",
        *walk.keys.notes(),
    )
    opaque = tuple(sorted(walk.opaque))
    return Reading("hdf5", source.size, walk.datasets, walk.numel, walk.keys.names(), opaque, said, walk.numbers())


class _Walk:
    def __init__(self, file: File, source: Source, limits: Limits) -> None:
        self._file, self._source, self._limits = file, source, limits
        self.version, self.file_end = file.version, file.end
        self.keys, self._tally = KeyList(limits), NumberTally()
        self.groups = self.datasets = self.numel = 0
        self.unread: Dict[str, int] = {}
        self.opaque: Set[str] = set()
        self._waiting: Deque[Tuple[str, int]] = deque([("", file.root)])
        self._seen: Set[int] = set()
        self._blind: Dict[str, None] = {}
        self._looked = False

    def all(self) -> None:
        """Read every object that links lead to."""
        while self._waiting:
            path, at = self._waiting.popleft()
            if at in self._seen:
                continue
            self._seen.add(at)
            if len(self._seen) > _MOST_OBJECTS:
                raise Unreadable("has more than %d objects" % _MOST_OBJECTS)
            try:
                self._object(path, self._file.messages(at))
            except IndexError:
                raise Unreadable(
                    "is damaged: a message of %s is too short" % legible(path or "the root group")
                ) from None

    def numbers(self) -> Optional[Numbers]:
        """Return what was counted; None if nothing was examined."""
        names, found = list(self._blind), self._tally.numbers()
        if names and not self._looked:
            return None
        more = " and %d more" % (len(names) - 5) if names[5:] else ""
        unread = "datasets %s%s" % (", ".join(names[:5]), more) if names else ""
        return Numbers(found.nan, found.inf, found.where, found.more, unread)

    def _object(self, path: str, messages: List[Message]) -> None:
        kinds = {message.kind: message.data for message in messages if not message.shared}
        shared = any(message.shared and message.kind in (_SPACE, _TYPE) for message in messages)
        for message in messages:
            if message.kind == _LINK:
                self._link(path, message.data)
            elif message.kind == _ATTRIBUTE and _CONFIG in message.data[:64]:
                self._config(message.data)
        if not path and any(message.shared and message.kind == _ATTRIBUTE for message in messages):
            self.opaque.add("attributes of the root that stand elsewhere, which are not looked into")
        if _ATTRIBUTES in kinds and not path and _is_in_heap(kinds[_ATTRIBUTES], 2):
            self.opaque.add("attributes of the root that lie in a heap, which is not looked into")
        if _LAYOUT in kinds:
            if shared:
                self.datasets += 1
                self._pass_over("datasets have a type that is stored elsewhere: they are not looked at")
                self._blind[legible(path, 60)] = None
            else:
                self._dataset(path, kinds)
            return
        self.groups += 1
        if _TABLE in kinds:
            table = kinds[_TABLE]
            for name, at in self._file.names(_natural(table, 0, 8), _natural(table, 8, 8)):
                self._found(path, name, at)
        if _LINKS in kinds and _is_in_heap(kinds[_LINKS], 8):
            self._pass_over("groups keep their links in a heap, which is not looked into")
            self._blind["in groups that are not looked into"] = None

    def _found(self, path: str, name: str, at: int) -> None:
        if at != NOWHERE:  # a soft link has no address
            self._waiting.append(("%s/%s" % (path, name) if path else name, at))

    def _link(self, path: str, data: bytes) -> None:
        flags, place = data[1], 2
        kind = data[place] if flags & 8 else 0
        place += (1 if flags & 8 else 0) + (8 if flags & 4 else 0) + (1 if flags & 16 else 0)
        width = 1 << (flags & 3)
        length = _natural(data, place, width)
        name = data[place + width : place + width + length].decode("utf-8", "replace")
        if kind == 0:
            self._found(path, name, _natural(data, place + width + length, 8))
        else:
            self._pass_over("links lead to other places, and are not followed")

    def _dataset(self, path: str, kinds: Dict[int, bytes]) -> None:
        if _SPACE not in kinds or _TYPE not in kinds:
            raise Unreadable("dataset %s has no shape or no type" % legible(path))
        numel, kind = _elements(kinds[_SPACE], path), _type(kinds[_TYPE])
        self.datasets, self.numel = self.datasets + 1, self.numel + numel
        self.keys.add(path)
        if _OUTSIDE in kinds:
            self._pass_over("datasets lie in other files, which are not looked at")
            self._blind[legible(path, 60)] = None
            return
        at, size = self._place(path, kinds, numel * kind.bytes)
        if size < 0 or not kind.dtype:
            if kind.kind in _MAY_BE_NAN and numel:
                self._blind[legible(path, 60)] = None
            return
        counter = Counter(kind.dtype, big_endian=kind.big_endian)
        for piece in self._source.pieces(at, size):
            counter.take(piece)
        self._looked = True
        self._tally.add(path, counter.nan, counter.inf)

    def _place(self, path: str, kinds: Dict[int, bytes], need: int) -> Tuple[int, int]:
        """Return the place of contiguous data, proven to be in the file; a size of -1 if it is not contiguous."""
        data = kinds[_LAYOUT]
        if data[0] not in (3, 4):
            self._pass_over("datasets have a layout of version %d, which is not read" % data[0])
            return 0, -1
        if data[1] == _CONTIGUOUS:
            at, size = _natural(data, 2, 8), _natural(data, 10, 8)
            if at == NOWHERE:  # never written: reads as the fill value
                self._pass_over("datasets have no data in the file: they read as their fill value" if need else "")
                return 0, -1 if need else 0
            if size != need:
                raise Unreadable("dataset %s needs %d bytes, it has %d" % (legible(path), need, size))
            if at + size > self._file.end:
                seen = (legible(path), at + size, self._file.end)
                raise Unreadable("cut short: dataset %s ends at byte %d, the file has %d" % seen)
            return at, size
        if data[1] == _COMPACT:
            self._pass_over("small datasets lie in their headers: their numbers are not looked at")
            if _natural(data, 2, 2) != need:
                raise Unreadable("dataset %s needs %d bytes, it has %d" % (legible(path), need, _natural(data, 2, 2)))
        elif data[1] == _CHUNKED and data[0] == 3:
            self._chunks(path, data, _FILTERS in kinds)
        else:
            self._pass_over("datasets are in pieces by an index that is not looked into")
        return 0, -1

    def _chunks(self, path: str, data: bytes, filtered: bool) -> None:
        """Prove that every chunk of a dataset lies in the file, with all its bytes if it is not compressed."""
        rank, tree = data[2], _natural(data, 3, 8)
        piece = 1
        for dimension in range(rank):
            piece *= _natural(data, 11 + 4 * dimension, 4)
        self._pass_over("datasets are in pieces%s: their places are proven, their numbers not looked at" % (
            ", compressed or checked by a filter" if filtered else ""))  # fmt: skip
        if tree == NOWHERE:
            return
        spans = []
        for key, at in self._file.leaves(tree, 1, 8 + 8 * rank):
            size = int.from_bytes(key[:4], "little")
            if at == NOWHERE or at + size > self._file.end or (not filtered and size != piece):
                raise Unreadable("a piece of dataset %s at byte %d has %d bytes" % (legible(path), at, size))
            spans.append((at, size))
        end = 0
        for at, size in sorted(spans):
            if at < end:
                raise Unreadable("two pieces of dataset %s overlap at byte %d" % (legible(path), at))
            end = at + size

    def _config(self, data: bytes) -> None:
        """Look for code in the description of a Keras model, which is an attribute of the root."""
        version = data[0]
        name, kind, space = (_natural(data, place, 2) for place in (2, 4, 6))
        place = 9 if version == 3 else 8
        parts = (name, kind, space)
        place += sum(-(-part // 8) * 8 for part in parts) if version == 1 else sum(parts)
        value = data[place:]
        is_long = data[8 + (version == 3) + (-(-name // 8) * 8 if version == 1 else name)] & 15 == 9
        raw = self._file.global_text(value) if is_long else value.rstrip(b"\0")
        if len(raw) > _MOST_CONFIG_BYTES:
            raise Unreadable("the model's description has %d bytes" % len(raw))
        self.opaque.update(opaque_layers(raw, self._limits))

    def _pass_over(self, what: str) -> None:
        if what:
            self.unread[what] = self.unread.get(what, 0) + 1


def _is_in_heap(data: bytes, order_bytes: int) -> bool:
    """Return whether links or attributes lie in a heap: its address follows flags and an optional order."""
    return _natural(data, 2 + (order_bytes if data[1] & 1 else 0), 8) != NOWHERE


def _elements(data: bytes, path: str) -> int:
    """Multiply the sizes of a shape."""
    version, rank = data[0], data[1]
    if version not in (1, 2) or rank > _MOST_RANK:
        raise Unreadable("dataset %s has a shape that is not understood" % legible(path))
    if version == 2 and data[3] == 2:
        return 0
    numel, place = 1, 8 if version == 1 else 4
    for dimension in range(rank):
        numel = min(numel * _natural(data, place + 8 * dimension, 8), 1 << 62)
    return numel


def _type(data: bytes) -> _Type:
    kind, size = data[0] & 15, _natural(data, 4, 4)
    if kind != 1:
        return _Type(kind, size, "", False)
    known = _FLOATS.get((size, data[13]), "")
    dtype = known if known and _is_ieee(data, size) else ""
    return _Type(kind, size, dtype, bool(data[1] & 1))


def _is_ieee(data: bytes, size: int) -> bool:
    """Return whether sign, exponent and fraction have their IEEE 754 places, in one of two byte orders."""
    fraction = 8 * size - 1 - data[13]
    order, sign = data[1] & 0x41, data[2]
    shape = (_natural(data, 8, 2), _natural(data, 10, 2), data[12], data[14], data[15], _natural(data, 16, 4))
    wanted = (0, 8 * size, fraction, 0, fraction, (1 << (data[13] - 1)) - 1)
    return shape == wanted and order in (0, 1) and sign == 8 * size - 1 and data[1] & 0x30 == 0x20


def _natural(data: bytes, at: int, count: int) -> int:
    if at + count > len(data):
        raise Unreadable("is damaged: a message ends inside of a number")
    return int.from_bytes(data[at : at + count], "little")
