"""One box of a fleet, as the home that looks on knows it, and the few things that are asked of it."""

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
    """A box with a wire that is open already: whoever connects next gets that one."""

    held: list[MachineEngine] = field(default_factory=list)

    def connect(self) -> MachineEngine:
        """Hand out the open wire once, then open new ones."""
        return self.held.pop() if self.held else super().connect()


@dataclass
class Member:
    """One box of the fleet."""

    box: Box
    suffix: str = ""  # of its run: the box's own name, whatever homes call it
    run: str = ""
    places: int = 1
    state: RunState = field(default_factory=RunState)  # the box's word on its cells, as last heard
    cells: list[str] = field(default_factory=list)  # those that this home expects from it
    busy: bool = False  # somebody here follows its run
    handing: bool = False  # a cell is on its way from it or to it
    problem: str = ""  # why it cannot be asked
    silent_since: float = 0.0
    begun_at: float = 0.0
    handed_at: float = 0.0
    keeps_until: float = 0.0  # it would not give cells up: it is not asked again before
    moved: bool = False  # its cells went to others while it was silent
    failed: str = ""
    unfit: bool = False  # it refused to begin, so it is given no more
    not_durable: NotDurable | None = None

    @contextmanager
    def wire(self) -> Iterator[MachineEngine]:
        """Open a wire for a moment."""
        with self.box.connect() as engine:
            yield engine

    def heard(self, seen: Mapping[str, Any]) -> None:
        """Take the box's word on how it stands."""
        self.state = state_from(seen)
        self.problem = ""

    def lost(self, why: str) -> None:
        """Note since when it has been silent."""
        self.silent_since = self.silent_since if self.problem else time.monotonic()
        self.problem = why

    def bench(self, left: Mapping[str, float]) -> Bench:
        """Describe it as a place to work, with what it still has to do."""
        return Bench(self.box.name, self.places, sum(left.values()))


def meet(member: Member, sweep: str, job: Job) -> None:
    """Ask a box who it is and how many cells it can run at once; its wire stays open for the launch."""
    engine = member.box.connect()
    with closed_on_failure(engine):
        member.suffix = "b" + str(engine.box.probe()["box_id"])[:6]
        member.run = f"{sweep}-{member.suffix}"
        cards = engine.box.readings([]).get("gpus") if job.gpu is not None else None
        member.places = _places(job, cards)
        member.heard(engine.observe.look(member.run))
    _hold_open(member, engine)


def claim(member: Member, home: Home, who: str) -> ClaimAnswer:
    """Hold a box's run if nobody does; return the box's word, with `mine` and `holder`."""
    engine = member.box.connect()
    with closed_on_failure(engine):
        seen = engine.hold.claim(member.run, home.ledger.home_id, who)
    member.heard(seen)
    _hold_open(member, engine)
    return seen


def hang_up(members: Sequence[Member]) -> None:
    """Close wires that nobody took."""
    for member in members:
        for engine in getattr(member.box, "held", []):
            engine.close()
        getattr(member.box, "held", []).clear()


def record_of(home: Home, run: str) -> RunRecord | None:
    """Find a run that this home has written down."""
    return books.run_called(home.ledger, run)


def settled_cells(record: RunRecord) -> set[str]:
    """Say which cells of a run are home or were given up."""
    receipt = books.receipt_of(record)
    return {*(receipt.cells if receipt else ()), *record.waived}


def forget(home: Home, run: str, gone: Callable[[str], bool]) -> None:
    """Take cells out of what a run promises: another one promises them from now on."""
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
    """List a member's cells as its plan has them, new ones behind: what is home by an equal plan is not read again."""
    record = record_of(home, member.run)
    known = plan_from_dict(json.loads(record.plan_json)).cells if record else ()
    return [*(name for name in known if name in member.cells), *(name for name in member.cells if name not in known)]


def give_up(home: Home, member: Member, wish: Mapping[str, Any]) -> tuple[list[str], RunSeen]:
    """Have a box give cells up and write down that they are no longer its own; return which, and how it stands now."""
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
