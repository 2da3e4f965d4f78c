"""One box of a fleet, as this home knows it, and the few requests sent to it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from leasehold.errors import NotDurable
from leasehold.kit.run.run_state import RunState, state_from
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box, closed_on_failure
from leasehold.model.job.job import Job
from leasehold.model.lease.lease import RunRecord
from leasehold.model.run.plan import plan_from_dict

from .balance import Bench

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import ClaimAnswer, RunSeen
    from leasehold.platforms.contract import MachineEngine


@dataclass(frozen=True)
class OpenBox(Box):
    """A box with a connection that is already open, for the next caller that connects."""

    held: list[MachineEngine] = field(default_factory=list)

    def connect(self) -> MachineEngine:
        """Return the open connection once, then open new ones."""
        return self.held.pop() if self.held else super().connect()


@dataclass
class Member:
    """One box of the fleet."""

    box: Box
    suffix: str = ""  # of its run: the box's own name, whatever homes call it
    run: str = ""
    places: int = 1
    state: RunState = field(default_factory=RunState)  # the box's report on its cells, as last read
    cells: list[str] = field(default_factory=list)  # those that this home expects from it
    busy: bool = False  # something here follows its run
    handing: bool = False  # a cell is in transit from it or to it
    problem: str = ""  # why it cannot be reached
    silent_since: float = 0.0
    begun_at: float = 0.0
    handed_at: float = 0.0
    keeps_until: float = 0.0  # it refused to give cells up: not asked again before this
    moved: bool = False  # its cells went to others while it was silent
    failed: str = ""
    unfit: bool = False  # it refused to begin, so it is given no more
    not_durable: NotDurable | None = None

    @contextmanager
    def wire(self) -> Iterator[MachineEngine]:
        """Open a connection briefly."""
        with self.box.connect() as engine:
            yield engine

    def heard(self, seen: Mapping[str, Any]) -> None:
        """Store the box's report on its state."""
        self.state = state_from(seen)
        self.problem = ""

    def lost(self, why: str) -> None:
        """Record since when it has been silent."""
        self.silent_since = self.silent_since if self.problem else time.monotonic()
        self.problem = why

    def bench(self, left: Mapping[str, float]) -> Bench:
        """Describe it as a worker, with its remaining work."""
        return Bench(self.box.name, self.places, sum(left.values()))


def meet(member: Member, sweep: str, job: Job) -> None:
    """Ask a box for its identity and its number of parallel cells; the connection stays open for the launch."""
    engine = member.box.connect()
    with closed_on_failure(engine):
        member.suffix = "b" + str(engine.box.probe()["box_id"])[:6]
        member.run = f"{sweep}-{member.suffix}"
        cards = engine.box.readings([]).get("gpus") if job.gpu is not None else None
        member.places = _places(job, cards)
        member.heard(engine.observe.look(member.run))
    _hold_open(member, engine)


def claim(member: Member, home: Home, who: str) -> ClaimAnswer:
    """Hold a box's run if nobody does; return the box's reply, with `mine` and `holder`."""
    engine = member.box.connect()
    with closed_on_failure(engine):
        seen = engine.hold.claim(member.run, home.ledger.home_id, who)
    member.heard(seen)
    _hold_open(member, engine)
    return seen


def hang_up(members: Sequence[Member]) -> None:
    """Close connections that nobody took."""
    for member in members:
        for engine in getattr(member.box, "held", []):
            engine.close()
        getattr(member.box, "held", []).clear()


def record_of(home: Home, run: str) -> RunRecord | None:
    """Find a run that this home has recorded."""
    return books.run_called(home.ledger, run)


def settled_cells(record: RunRecord) -> set[str]:
    """Return the cells of a run that are home or were given up."""
    receipt = books.receipt_of(record)
    return {*(receipt.cells if receipt else ()), *record.waived}


def forget(home: Home, run: str, gone: Callable[[str], bool]) -> None:
    """Remove cells from what a run promises: another run promises them from now on."""
    record = record_of(home, run)
    if record is None:
        return
    plan = plan_from_dict(json.loads(record.plan_json))
    kept = tuple(cell for cell in plan.cells if not gone(cell))
    if kept == plan.cells:
        return
    home.ledger.append(
        "run_planned", lease=record.lease, run=run, plan=replace(plan, cells=kept).as_dict(), name=plan.job.name,
        box=record.box, project=record.project, results=record.results,
    )  # fmt: skip


def in_plan_order(home: Home, member: Member) -> list[str]:
    """List a member's cells in its plan's order, new ones last: what is home by an equal plan is not read again."""
    record = record_of(home, member.run)
    known = plan_from_dict(json.loads(record.plan_json)).cells if record else ()
    return [*(name for name in known if name in member.cells), *(name for name in member.cells if name not in known)]


def give_up(home: Home, member: Member, wish: Mapping[str, Any]) -> tuple[list[str], RunSeen]:
    """Make a box give cells up and record that; return which, and the box's new state."""
    with member.wire() as engine:
        released = engine.hold.release(member.run, home.ledger.home_id, wish)
        seen = engine.observe.look(member.run)
    forget(home, member.run, released.__contains__)
    return released, seen


def _hold_open(member: Member, engine: MachineEngine) -> None:
    if not isinstance(member.box, OpenBox):
        member.box = OpenBox(**vars(member.box))
    member.box.held.append(engine)


def _places(job: Job, cards: object) -> int:
    at_once = job.at_once or 0
    if job.gpu is None or not isinstance(cards, list) or "CUDA_VISIBLE_DEVICES" in job.env:
        return max(1, at_once)
    fit = max(1, len(cards) // max(1, job.gpu.count))
    return min(fit, at_once) if at_once else fit
