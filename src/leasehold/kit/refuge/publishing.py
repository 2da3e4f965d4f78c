"""Put a state into a place: files, read back, manifest, read back; then the pointer, unless the run was given away."""

from __future__ import annotations

from typing import BinaryIO, Callable, Dict, Iterable, List, Optional

from leasehold.kit.testing.kill_points import pause_at

from .epochs import highest
from .layout import file_key, files_prefix, pointer_key, split_state_key, state_key, states_prefix
from .place import LYING, Absent, Place, PlaceError
from .read_object import put_object
from .reading import Kept
from .records import Pointer, State, StateFile, encode_pointer, encode_state

Opener = Callable[[StateFile], BinaryIO]


class Fenced(Exception):
    """A higher epoch of the run is claimed: what this box publishes no longer counts."""

    def __init__(self, epoch: int) -> None:
        super().__init__("epoch %d of the run is claimed" % epoch)
        self.epoch = epoch


def put_state(place: Place, state: State, opened: Opener, before: Optional[Callable[[], None]] = None) -> Kept:
    """Put a state's files and manifest, each read back; a file that is there already with the right bytes stays.

    SourceChanged if a file is not what the state says; `before` is called before each file and may stop the copy.
    """
    data, hashed, name = encode_state(state)
    there = _sizes(place, state, name)
    for one in state.files:
        if before is not None:
            before()
        _put_file(place, file_key(state.run, state.cell, name, one.path), one, opened, there)
    pause_at("refuge_files_written", "after")
    if before is not None:
        before()
    put_object(place, state_key(state.run, state.cell, name), data)
    pause_at("refuge_manifest_written", "after")
    return Kept(name, state, hashed)


def put_pointer(place: Place, run: str, cell: str, pointer: Pointer) -> None:
    """Publish the newest state of our epoch; Fenced, with nothing published, if a higher one is claimed."""
    check_fence(place, run, pointer.epoch)
    pause_at("refuge_fence_read", "after")
    put_object(place, pointer_key(run, cell, pointer.epoch), encode_pointer(pointer))
    pause_at("refuge_published", "after")


def check_fence(place: Place, run: str, epoch: int) -> None:
    """Raise Fenced if a higher epoch of the run is claimed."""
    there = highest(place, run)
    if there > epoch:
        raise Fenced(there)


def prune(place: Place, run: str, cell: str, keep: Iterable[str], mine: Callable[[str], bool]) -> List[str]:
    """Delete the states that are not kept and are `mine` to delete; return their names.

    The manifest goes first, so that a state with a manifest has all its files, whatever is killed in between.
    """
    kept = set(keep)
    keys: Dict[str, List[str]] = {}
    for one in place.list(states_prefix(run, cell)):
        found = split_state_key(run, cell, one.key)
        if found is not None and found[0] not in kept:
            keys.setdefault(found[0], []).append(one.key)
    gone = [name for name in sorted(keys) if mine(name)]
    for name in gone:
        manifest = state_key(run, cell, name)
        place.delete(manifest)
        pause_at("refuge_pruning", "during")
        for key in keys[name]:
            if key != manifest:
                place.delete(key)
    return gone


def _sizes(place: Place, state: State, name: str) -> Dict[str, int]:
    return {one.key: one.bytes for one in place.list(files_prefix(state.run, state.cell, name))}


def _put_file(place: Place, key: str, one: StateFile, opened: Opener, there: Dict[str, int]) -> None:
    if there.get(key) == one.bytes and _holds(place, key) == one.sha256:
        return  # an earlier copier of this state got so far
    source = opened(one)
    try:
        place.put(key, source, one.bytes, one.sha256)
    finally:
        source.close()
    if _holds(place, key) != one.sha256:
        raise PlaceError(LYING, "%s holds other bytes for %s than were written" % (place.where, one.path))


def _holds(place: Place, key: str) -> str:
    try:
        return place.read_back(key)
    except Absent:
        return ""
