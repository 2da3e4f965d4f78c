"""Lay a state onto the new box: fetched by the box itself where it sees the place, else streamed through this home."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leasehold.errors import BoxError
from leasehold.kit.refuge.place import ABSENT, LYING, PlaceError
from leasehold.kit.refuge.records import StateFile
from leasehold.lifecycle.launch.take_over import whoami
from leasehold.lifecycle.records.orders import Arrival
from leasehold.model.run.note import Note, Report
from leasehold.model.values.units import say_bytes
from leasehold.platforms.state_stream import Laying

from .places import BoxPlace, Kept

_TORN = ("state.differs", "state.cut", "refuge.lying", "refuge.absent")
_SAY_EVERY_S = 5.0


@dataclass(frozen=True)
class Given:
    """What travels with a state into the journal of the new box."""

    home_id: str
    epoch: int
    box: str  # that the run leaves
    chain: Mapping[str, Sequence[Mapping[str, Any]]]  # by cell: the boxes where it was so far


def lay_newest(arrival: Arrival, cell: str, found: Sequence[Kept], given: Given, report: Report) -> Kept | None:
    """Lay the newest state that arrives with the right bytes; a torn one is reported, and the next one is taken."""
    for kept in _by_way(arrival, found):
        try:
            _lay(arrival, cell, kept, given, report)
        except (BoxError, PlaceError) as error:
            if not _is_torn(error):
                raise
            report(Note("torn", f"state {kept.id} in {kept.place.where} is damaged and passed over: {error}"))
            continue
        return kept
    return None


def _by_way(arrival: Arrival, found: Sequence[Kept]) -> Iterator[Kept]:
    """Yield the states in order; of one that several places keep, the nearest to the new box first."""
    done: set[str] = set()
    for kept in found:
        if kept.id not in done:
            done.add(kept.id)
            same = [one for one in found if one.id == kept.id]
            yield from sorted(same, key=lambda one: _distance(arrival, one))


def _distance(arrival: Arrival, kept: Kept) -> int:
    return 0 if _sees(arrival, kept) else 1 if kept.place.seen_by == "home" else 2


def _sees(arrival: Arrival, kept: Kept) -> bool:
    return isinstance(kept.place, BoxPlace) and kept.place.engine is arrival.engine


def _is_torn(error: BoxError | PlaceError) -> bool:
    return error.kind in (LYING, ABSENT) if isinstance(error, PlaceError) else error.code in _TORN


def _lay(arrival: Arrival, cell: str, kept: Kept, given: Given, report: Report) -> None:
    moves = arrival.engine.moves
    laying = Laying(
        run=arrival.plan.run,
        cell=cell,
        home=given.home_id,
        who=whoami(),
        epoch=given.epoch,
        state=kept.id,
        files=kept.files,
        pattern=arrival.plan.job.checkpoint.path,
        facts=facts_of(kept, given, cell),
    )
    missing = moves.missing(laying)
    if missing is None:
        report(Note("state_there", f"cell {cell}: {say_state(kept)} lies on {arrival.where.box} already"))
        return
    size = sum(laying.files[one.number].bytes - one.offset for one in missing)
    progress = _Progress(f"cell {cell}: {say_state(kept)}", arrival.where.box, size, report)
    if isinstance(kept.place, BoxPlace) and _sees(arrival, kept):
        key = {"run": kept.state.run, "cell": kept.state.cell, "id": kept.id, "root": kept.state.root}
        moves.fetch(laying, kept.place.spec, key, progress.more)
        progress.end(f"{arrival.where.box} read it from {kept.place.where} itself")
        return

    def source(one: StateFile, offset: int) -> Iterator[bytes]:
        return kept.place.read(kept, one, offset)

    moves.send(laying, missing, source, progress.more)
    progress.end(f"streamed from {kept.place.where}")


def facts_of(kept: Kept, given: Given, cell: str) -> dict[str, Any]:
    """Return what the journal of the new box says of a state."""
    stays = [dict(one) for one in given.chain.get(cell, ())]
    if stays:
        stays[-1]["step"] = kept.state.step
    return {
        "box": given.box or kept.state.box,
        "run": kept.state.run,
        "step": kept.state.step,
        "sha256": kept.manifest_sha256,
        "place": kept.place.where,
        "made_unix": kept.state.made_unix,
        "chain": stays,
    }


def say_state(kept: Kept) -> str:
    """Name a state for people."""
    if kept.state.kind == "everything":
        return f"everything in $LEASE_OUT, since the job names no checkpoint ({say_bytes(kept.state.bytes)})"
    step = f"step {kept.state.step}" if kept.state.step is not None else f"state {kept.id}, its step is unknown"
    return f"{step} ({say_bytes(sum(one.bytes for one in kept.files))})"


class _Progress:
    """Reports of a transfer, every few seconds."""

    def __init__(
        self, what: str, box: str, size: int, report: Report, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what, self._box, self._size, self._report, self._clock = what, box, size, report, clock
        self._moved = 0
        self._begun = self._due = clock()
        self._due += _SAY_EVERY_S

    def more(self, count: int) -> None:
        """Count bytes that moved."""
        self._moved += count
        now = self._clock()
        if now < self._due:
            return
        self._due = now + _SAY_EVERY_S
        rate = self._moved / max(now - self._begun, 1e-9)
        left = max(0, self._size - self._moved) / rate if rate else 0.0
        text = f"{self._what}: {say_bytes(self._moved)} of {say_bytes(self._size)} are on {self._box}, "
        data = {"moved": self._moved, "bytes": self._size}
        self._report(Note("state_progress", text + f"{say_bytes(rate)}/s, about {left:.0f} s left", data))

    def end(self, how: str) -> None:
        """Report that the state is laid."""
        took = self._clock() - self._begun
        text = f"{self._what} lies on {self._box}; {how} in {took:.1f} s, every hash checked there"
        self._report(Note("state_laid", text, {"bytes": self._size, "s": round(took, 3)}))
