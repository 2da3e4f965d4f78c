"""Read a refuge: the newest state of a cell, older ones when it is damaged, and whether its files are all there."""

from __future__ import annotations

from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from leasehold.kit.files.canonical_json import sha256
from leasehold.kit.files.sha256 import new_sha256

from .epochs import epochs
from .layout import cells_prefix, file_key, number_of, pins_key, pointer_key, split_state_key, state_key, states_prefix
from .place import LYING, Absent, Place, PlaceError
from .read_object import read_object
from .records import MOST_BYTES, BadRecord, Pointer, State, StateFile, parse_pins, parse_pointer, parse_state


class Kept(NamedTuple):
    """A state as a place keeps it: its name, its manifest, the manifest's hash."""

    id: str
    state: State
    manifest_sha256: str


def newest_state(place: Place, run: str, cell: str) -> Optional[Kept]:
    """Return the newest state whose manifest is what its pointer or name says; its files are not read here."""
    return next(kept_states(place, run, cell), None)


def newest_whole(place: Place, run: str, cell: str, tick: Callable[[int], None] = lambda _: None) -> Optional[Kept]:
    """Return the newest state of which every byte was read and is right now what the manifest says."""
    return next((one for one in kept_states(place, run, cell) if not verify(place, one, tick)), None)


def kept_states(place: Place, run: str, cell: str) -> Iterator[Kept]:
    """Yield the states with a good manifest, newest first: by epoch, in each the one that its pointer names first.

    Only claimed epochs count: a box that nobody gave the run to cannot change what is taken.
    """
    shown: Set[str] = set()
    listed: Optional[List[Kept]] = None
    for epoch in epochs(place, run):
        pointer = read_pointer(place, run, cell, epoch)
        named = read_state(place, run, cell, pointer.id, pointer.manifest_sha256) if pointer else None
        if named and named.state.epoch <= epoch and named.id not in shown:
            shown.add(named.id)
            yield named
        if listed is None:  # only now, since most readers need no second state
            listed = sorted(_listed(place, run, cell), key=_age, reverse=True)
        for kept in listed:
            if kept.state.epoch == epoch and kept.id not in shown:
                shown.add(kept.id)
                yield kept


def read_pointer(place: Place, run: str, cell: str, epoch: int) -> Optional[Pointer]:
    """Return the pointer of an epoch; None if it is absent or damaged."""
    try:
        return parse_pointer(read_object(place, pointer_key(run, cell, epoch), MOST_BYTES), epoch)
    except (Absent, BadRecord):
        return None


def read_pins(place: Place, run: str) -> Dict[str, List[str]]:
    """Return the states that a person pinned, by cell; BadRecord if that cannot be told."""
    try:
        return parse_pins(read_object(place, pins_key(run), MOST_BYTES))
    except Absent:
        return {}


def read_state(place: Place, run: str, cell: str, state: str, manifest_sha256: str = "") -> Optional[Kept]:
    """Return a state; None if its manifest is absent, damaged, or not the one that was named."""
    try:
        data = read_object(place, state_key(run, cell, state), MOST_BYTES)
        hashed = sha256(data)
        if manifest_sha256 and hashed != manifest_sha256:
            return None
        return Kept(state, parse_state(data, run, cell, state), hashed)
    except (Absent, BadRecord):
        return None


def state_ids(place: Place, run: str, cell: str) -> Tuple[Set[str], Set[str]]:
    """Return the states with a manifest, and those that have files."""
    manifests: Set[str] = set()
    filed: Set[str] = set()
    for one in place.list(states_prefix(run, cell)):
        found = split_state_key(run, cell, one.key)
        if found is not None:
            (filed if found[1] else manifests).add(found[0])
    return manifests, filed


def cells(place: Place, run: str) -> List[str]:
    """Return the cells of which a place keeps anything."""
    prefix = cells_prefix(run)
    return sorted({one.key[len(prefix) :].partition("/")[0] for one in place.list(prefix)})


def verify(place: Place, kept: Kept, tick: Callable[[int], None] = lambda _: None) -> List[str]:
    """Read every file of a state back; return what is wrong, nothing if it is whole."""
    wrong = []
    for one in kept.state.files:
        try:
            for part in read_file(place, kept, one):
                tick(len(part))
        except PlaceError as error:
            if error.kind not in (LYING, "absent"):
                raise
            wrong.append(str(error))
    return wrong


def read_file(place: Place, kept: Kept, one: StateFile) -> Iterator[bytes]:
    """Yield a file's bytes; PlaceError(lying) at the end if they are not those of the manifest."""
    key = file_key(kept.state.run, kept.state.cell, kept.id, one.path)
    sha, size = new_sha256(one.bytes), 0
    for part in place.get(key):
        sha.update(part)
        size += len(part)
        if size > one.bytes:
            break
        yield part
    if size != one.bytes or sha.hexdigest() != one.sha256:
        raise PlaceError(LYING, "%s of state %s in %s is not what its manifest says" % (one.path, kept.id, place.where))


def _listed(place: Place, run: str, cell: str) -> Iterator[Kept]:
    """Yield every state with a good manifest, whether a pointer names it or not."""
    for name in state_ids(place, run, cell)[0]:
        kept = read_state(place, run, cell, name)
        if kept is not None:
            yield kept


def _age(kept: Kept) -> Tuple[int, int, float]:
    return kept.state.epoch, number_of(kept.id), kept.state.made_unix
