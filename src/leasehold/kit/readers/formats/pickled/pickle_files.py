"""Plain pickles (.pkl), read by the inert machine: one, or several in sequence."""

from __future__ import annotations

from typing import List, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.result import KeyList, Limits, Reading, Unreadable
from leasehold.kit.readers.pickles.pickle_machine import run_first_pickle
from leasehold.kit.readers.pickles.pickle_ops import growing
from leasehold.kit.readers.pickles.stand_ins import Inert, World
from leasehold.kit.readers.torch.torch_legacy import MAGIC
from leasehold.kit.readers.torch.torch_zip import read_torch

from .pickle_world import PickleWorld

_FIRST_BYTES = 4096
_MOST_PICKLES = 100_000
_HEADS = {
    b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz",
}  # fmt: skip


def read_pickle(source: Source, limits: Limits) -> Reading:
    """Run every pickle of the file inertly, up to its end; what torch.save wrote is read as that."""
    head = source.read_at(0, min(source.size, len(MAGIC)))
    if head.startswith((b"PK\x03\x04", MAGIC)):
        return read_torch(source, limits)
    for magic, what in _HEADS.items():
        if head.startswith(magic):
            raise Unreadable("is no plain pickle: it begins as %s" % what)
    world, keys, at, count = PickleWorld(limits), KeyList(limits), 0, 0
    while at < source.size:
        root, at = one_pickle(source, at, world, limits)
        count += 1
        if count > _MOST_PICKLES:
            raise Unreadable("holds more than %d pickles" % _MOST_PICKLES)
        keys.extend(keys_of(root))
    notes = ["%d pickles, one behind the other: pickle.load reads the first" % count] if count > 1 else []
    return pickle_reading("pickle", source.size, world, keys, notes)


def pickle_reading(kind: str, size: int, world: PickleWorld, keys: KeyList, notes: List[str]) -> Reading:
    """Build the reading from what a world recorded."""
    opaque = tuple(sorted(world.opaque))
    said = (*notes, *world.notes(), *keys.notes())
    arrays = world.arrays
    return Reading(kind, size, arrays.count, arrays.numel, keys.names(), opaque, said, world.all_numbers())


def keys_of(root: object) -> List[str]:
    """Return the keys of a dict that are text or plain numbers."""
    keys = root.keys or [] if isinstance(root, Inert) else []
    return [
        key if isinstance(key, str) else "%d" % key
        for key in keys
        if isinstance(key, str) or (isinstance(key, int) and abs(key) < 2**64)
    ]


def one_pickle(source: Source, at: int, world: World, limits: Limits) -> Tuple[object, int]:
    """Run the pickle that begins here; return its value and where it ends."""
    value, length = run_first_pickle(world, limits, growing(source, at, _FIRST_BYTES, limits))
    return value, at + length
