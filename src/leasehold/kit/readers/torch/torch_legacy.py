"""Torch checkpoints of the format before 1.6, still written on request: five pickles, then storages as raw bytes."""

from __future__ import annotations

import tarfile
from typing import Dict, List, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.count_nonfinite import Finding, Span, scan
from leasehold.kit.readers.base.result import KeyList, Limits, Reading, Unreadable, legible
from leasehold.kit.readers.pickles.pickle_machine import run_first_pickle
from leasehold.kit.readers.pickles.pickle_ops import growing
from leasehold.kit.readers.pickles.plain_world import PlainWorld
from leasehold.kit.readers.pickles.stand_ins import Inert, Kept, Name, World
from leasehold.kit.readers.pickles.torch_names import STORAGE_BYTES

from .torch_world import Storage, TorchWorld

MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_LATER = (b"\x80\x03", b"\x80\x04\x95\r\0\0\0\0\0\0\0", b"\x80\x05\x95\r\0\0\0\0\0\0\0")  # with pickle_protocol=
_MAGICS = (MAGIC, *(begin + MAGIC[2:] for begin in _LATER))
HEAD_BYTES = max(map(len, _MAGICS))
_PROTOCOL = 1001
_FIRST_BYTES = 1 << 20


def read_torch_legacy(source: Source, limits: Limits) -> Tuple[Reading, Finding]:
    """Run the pickles inertly, prove that the storages fill the rest of the file exactly, and scan their numbers."""
    _refuse_tar(source)
    root, big_endian, world, places = _run(source, limits)
    found = scan(source, _spans(world, places), big_endian)
    tally = world.numbers(found.numbers)
    keys = KeyList(limits)
    if isinstance(root, Inert):
        keys.extend(str(key) for key in root.keys or () if isinstance(key, str))
    notes = ["is in the legacy torch format: it has no checksum, so damage inside numbers is unseen", *keys.notes()]
    notes += ["was written on a big-endian machine"] if big_endian else []
    opaque = tuple(sorted(world.opaque))
    said = Reading("torch", source.size, world.tensors, world.numel, keys.names(), opaque, tuple(notes), tally)
    return said, Finding(found.checked_bytes, tally, world.plain)


def magic_bytes(head: bytes) -> int:
    """Return the length of the format's magic number at the beginning of a file; 0 if there is none."""
    return next((len(magic) for magic in _MAGICS if head.startswith(magic)), 0)


def _refuse_tar(source: Source) -> None:
    """Refuse what torch.load could read as a tar: it tries that first, and runs other pickles than those read here."""
    head = source.read_at(0, min(source.size, tarfile.BLOCKSIZE))
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError, OverflowError):
        return
    raise Unreadable("is a tar and a torch file in one: readers would see two different files")


def _spans(world: "_LegacyWorld", places: Dict[str, Tuple[int, int]]) -> List[Span]:
    """Return the place of each storage of floating-point numbers."""
    found = []
    for key, (begin, end) in places.items():
        dtype = world.float_dtype(key)
        if dtype:
            found.append(Span(world.label(key), dtype, begin, end - begin))
    return found


def _run(source: Source, limits: Limits) -> Tuple[object, bool, "_LegacyWorld", Dict[str, Tuple[int, int]]]:
    """Return the value, whether its numbers are big-endian, its pickle's requests, and the place of each storage."""
    at = magic_bytes(source.read_at(0, min(HEAD_BYTES, source.size)))
    if not at:
        raise Unreadable("does not begin with the magic number of torch's legacy format")
    protocol, at = _pickle(source, at, PlainWorld("protocol version", limits), limits)
    if type(protocol) is not int or protocol != _PROTOCOL:
        seen = legible(str(protocol)) if type(protocol) is int and abs(protocol) < 2**64 else type(protocol).__name__
        raise Unreadable("its protocol version is %s, not %d" % (seen, _PROTOCOL))
    facts, at = _pickle(source, at, PlainWorld("system facts", limits), limits)
    world = _LegacyWorld(limits)
    root, at = _pickle(source, at, world, limits)
    names, at = _pickle(source, at, PlainWorld("list of storages", limits), limits)
    return root, _is_big_endian(facts), world, _places(source, at, _names(names), world.storages)


def _is_big_endian(facts: object) -> bool:
    if not isinstance(facts, Kept) or facts.of != "dict":
        raise Unreadable("its system facts are no dict")
    little = [value for key, value in facts.pairs if key == "little_endian"]
    if any(type(value) is not bool for value in little):
        raise Unreadable("its byte order is neither little nor big")
    return little[-1:] == [False]


class _LegacyWorld(TorchWorld):
    """Trusts storages while the pickle runs; their sizes are proven afterwards."""

    def __init__(self, limits: Limits) -> None:
        super().__init__({}, limits)
        self.storages: Dict[str, Tuple[int, int]] = {}  # key -> elements, bytes of one

    def persistent(self, identity: object) -> object:
        """Return the storage that ('storage', type, key, location, numel, view) means; a module class stays a name."""
        if isinstance(identity, tuple) and len(identity) == 4 and identity[0] == "module":
            if not isinstance(identity[1], Name):
                raise Unreadable("pickle refers to a module by something that is no class")
            return identity[1]
        if not isinstance(identity, tuple) or len(identity) != 6 or identity[0] != "storage":
            raise Unreadable("pickle refers to an outside object that is no legacy storage")
        _, kind, key, location, numel, view = identity
        path = kind.path if isinstance(kind, Name) else ""
        if path not in STORAGE_BYTES or not isinstance(key, str) or not isinstance(location, str) or view is not None:
            raise Unreadable("pickle refers to a storage of unknown type %s, or to a view" % legible(path))
        if not isinstance(numel, int) or isinstance(numel, bool) or not 0 <= numel < 2**63:
            raise Unreadable("a storage's numel should be a natural number")
        found = (numel, STORAGE_BYTES[path])
        if self.storages.setdefault(key, found) != found:
            raise Unreadable("storage %s is named twice with different sizes" % legible(key))
        if len(self.storages) > self._limits.max_items:
            raise Unreadable("the pickle names more than %d storages" % self._limits.max_items)
        self.take_type(key, path)
        return Storage(*found, key)


def _pickle(source: Source, at: int, world: World, limits: Limits) -> Tuple[object, int]:
    """Run the pickle that begins here; return its value and where it ends."""
    value, length = run_first_pickle(world, limits, growing(source, at, _FIRST_BYTES, limits))
    return value, at + length


def _names(value: object) -> List[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise Unreadable("its list of storages is no list of names")
    return [name for name in value if isinstance(name, str)]


def _places(source: Source, at: int, order: List[str], known: Dict[str, Tuple[int, int]]) -> Dict[str, Tuple[int, int]]:
    places = {}
    if sorted(order) != sorted(known):
        raise Unreadable("it lists %d storages, its pickle names %d others" % (len(order), len(known)))
    for name in order:
        numel, width = known[name]
        stored = int.from_bytes(source.read_at(at, 8), "little")
        if stored != numel:
            raise Unreadable("storage %s has %d elements, the pickle says %d" % (legible(name), stored, numel))
        at += 8 + numel * width
        places[name] = (at - numel * width, at)
        if at > source.size:
            raise Unreadable(
                "cut short: storage %s ends at byte %d, the file has %d" % (legible(name), at, source.size)
            )
    if at != source.size:
        raise Unreadable("%d bytes lie behind the last storage" % (source.size - at))
    return places
