"""Copy one state of one cell to one refuge: files, read back, manifest, pointer; then delete what need not stay."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from leasehold.kit.refuge.epochs import epochs
from leasehold.kit.refuge.layout import number_of, pointer_key, state_key
from leasehold.kit.refuge.place import FULL, Place, PlaceError
from leasehold.kit.refuge.publishing import prune, put_pointer, put_state
from leasehold.kit.refuge.reading import Kept, read_pins, read_pointer, read_state, state_ids
from leasehold.kit.refuge.records import BadRecord, Pointer, State, StateFile, encode_state

from .best_metric import is_better
from .cell_record import CellRecord
from .found_states import Candidate
from .held_files import HeldFiles

Meter = Callable[[int], None]


class Origin(NamedTuple):
    """Whose state it is."""

    run: str
    cell: str
    epoch: int
    box: str
    attempt: int


class Retention(NamedTuple):
    """What stays in a refuge beside the newest."""

    keep: int
    mode: str


class Copied(NamedTuple):
    """A state that is in a refuge, and those that were deleted there."""

    kept: Kept
    pruned: Tuple[str, ...]


class StateCopy:
    """One candidate on its way; its manifest is made once, for every refuge and for the worker after a kill."""

    def __init__(self, held: HeldFiles, state: Candidate, origin: Origin, record: CellRecord, metric: Optional[float]):
        self._held, self._state, self._origin, self._record, self._metric = held, state, origin, record, metric
        self._made: Optional[State] = None
        self._gone: List[str] = []

    def to(self, place: Place, retention: Retention, check: Callable[[], None]) -> Copied:
        """Copy, publish, prune. SourceChanged: the state was written to; Fenced: the run was given away."""
        begun_unix = time.time()
        made = self._manifest(place)
        try:
            kept = self._put(place, made, check)
        except PlaceError as error:
            if error.kind != FULL or not self._make_room(place, made):
                raise
            kept = self._put(place, made, check)
        pointer = self._point(place, kept, retention)
        self._record.finish(place.where, kept.id, self._state.mark, begun_unix)
        gone, self._gone = self._gone + self._prune(place, pointer, retention.keep), []
        return Copied(kept, tuple(gone))

    def _put(self, place: Place, made: State, check: Callable[[], None]) -> Kept:
        def before() -> None:
            check()
            self._held.check()

        self._record.begin(place.where, _name_of(made))
        return put_state(place, made, lambda one: self._held.open(one.path), before)

    def _manifest(self, place: Place) -> State:
        if self._made is None:
            self._made = self._intended() or self._described(place)
        return self._made

    def _intended(self) -> Optional[State]:
        """Return the manifest that an earlier worker began with, if the files are still the same."""
        intent, origin = self._record.intent, self._origin
        if intent.get("mark") != self._state.mark or intent.get("epoch") != origin.epoch:
            return None
        try:
            files = tuple(StateFile(*one) for one in intent["files"])
            return self._state_of(files, int(intent["number"]), float(intent["copied_unix"]))
        except (KeyError, TypeError, ValueError):
            return None

    def _described(self, place: Place) -> State:
        files = tuple(self._held.hashed(row) for row in self._state.rows)
        self._held.check()
        number, now = self._number(place), round(time.time(), 3)
        intent: Dict[str, Any] = {"mark": self._state.mark, "epoch": self._origin.epoch, "number": number}
        self._record.intend(dict(intent, copied_unix=now, files=[list(one) for one in files]), number)
        return self._state_of(files, number, now)

    def _state_of(self, files: Tuple[StateFile, ...], number: int, copied_unix: float) -> State:
        origin, state = self._origin, self._state
        return State(
            run=origin.run,
            cell=origin.cell,
            epoch=origin.epoch,
            box=origin.box,
            attempt=origin.attempt,
            step=state.step,
            number=number,
            made_unix=round(state.made_ns / 1e9, 3),
            copied_unix=copied_unix,
            kind=state.kind,
            root=state.root,
            files=files,
        )

    def _number(self, place: Place) -> int:
        """Return the step, else the next place in the sequence that the refuge and we know."""
        if self._state.step is not None:
            return self._state.step
        there = [number_of(one) for one in state_ids(place, self._origin.run, self._origin.cell)[0]]
        return 1 + max([self._record.number, *there])

    def _point(self, place: Place, kept: Kept, retention: Retention) -> Pointer:
        origin = self._origin
        before = _newest_pointer(place, origin)
        best, value = (before.best, before.best_value) if before else ("", None)
        if is_better(self._metric, value, retention.mode):
            best, value = kept.id, self._metric
        state = kept.state
        pinned = tuple(_pins(place, origin) or ())
        now = round(time.time(), 3)
        pointer = Pointer(
            origin.epoch, kept.id, kept.manifest_sha256, state.step, state.made_unix, now, best, pinned, value
        )
        put_pointer(place, origin.run, origin.cell, pointer)
        return pointer

    def _prune(self, place: Place, pointer: Pointer, keep: int) -> List[str]:
        """Delete all but the last few, the best and the pinned; nothing while the pins cannot be read."""
        origin, record = self._origin, self._record
        if _pins(place, origin) is None:
            return []
        names, others = record.names(place.where), self._others(place)
        newest = (others + names)[-keep:]
        for epoch in epochs(place, origin.run):
            old = read_pointer(place, origin.run, origin.cell, epoch) if epoch < origin.epoch else None
            if old is not None and len(names) < keep:
                newest.append(old.id)  # until our own epoch has enough to fall back on
            elif old is not None:
                place.delete(pointer_key(origin.run, origin.cell, epoch))
        ours = set(names) | set(record.begun_names(place.where)) | set(others)
        gone = prune(place, origin.run, origin.cell, [*newest, *pointer.keeps], ours.__contains__)
        record.forget(place.where, gone)
        return gone

    def _others(self, place: Place) -> List[str]:
        """Return the states of earlier epochs, or of a worker whose record was lost, the oldest first."""
        origin = self._origin
        known = set(self._record.names(place.where))
        found = []
        for name in state_ids(place, origin.run, origin.cell)[0] - known:
            kept = read_state(place, origin.run, origin.cell, name)
            if kept is not None and kept.state.epoch <= origin.epoch:
                found.append((kept.state.epoch, kept.state.number, kept.state.made_unix, name))
        return [one[-1] for one in sorted(found)]

    def _make_room(self, place: Place, made: State) -> bool:
        """Delete all but the newest state for the one that finds no room; return whether anything went."""
        pointer = _newest_pointer(place, self._origin)
        if pointer is None or pointer.epoch != self._origin.epoch:
            return False
        record = self._record
        ours = [one for one in record.names(place.where) + record.begun_names(place.where) if one != _name_of(made)]
        gone = prune(place, self._origin.run, self._origin.cell, pointer.keeps, ours.__contains__)
        record.forget(place.where, gone)
        self._gone += gone
        return bool(gone)

    def give_up(self, place: Place) -> None:
        """Delete the files of a copy that will not be finished there, so that a full refuge is not left full."""
        if self._made is None:
            return
        name = _name_of(self._made)
        manifest = state_key(self._origin.run, self._origin.cell, name)
        if manifest not in [one.key for one in place.list(manifest)]:
            prune(place, self._origin.run, self._origin.cell, [], name.__eq__)


def _name_of(state: State) -> str:
    return encode_state(state)[2]


def _newest_pointer(place: Place, origin: Origin) -> Optional[Pointer]:
    """Return the pointer of our epoch, else of the newest before it."""
    for epoch in epochs(place, origin.run):
        pointer = read_pointer(place, origin.run, origin.cell, epoch) if epoch <= origin.epoch else None
        if pointer is not None:
            return pointer
    return None


def _pins(place: Place, origin: Origin) -> Optional[List[str]]:
    """Return what a person pinned; None if that cannot be told."""
    try:
        return read_pins(place, origin.run).get(origin.cell, [])
    except BadRecord:
        return None
