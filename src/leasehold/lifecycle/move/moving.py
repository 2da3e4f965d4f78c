"""A move, step by step, once the new box has passed its gates: fence, claim, find, lay; each step may be repeated.

move_begun    written before the first act: the run, the box it leaves and goes to, the epoch and its nonce
move_fenced   the old box has stopped the run, or a person's word stands for a silent one
move_laid     the newest states lie on the new box
run_moved     the run goes on there
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leasehold.errors import LeaseholdError, Refusal, UserError
from leasehold.ledger import books
from leasehold.lifecycle.approval.phrase import Ask, require_phrase
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.launch.launch import secret_values
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.records.orders import Arrival, Where
from leasehold.lifecycle.records.sweep_parts import sweep_of
from leasehold.model.lease.lease import RunRecord
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import Plan

from . import claims, leave_old
from .claims import Move
from .find_states import attempts_of, in_places, on_disk
from .lay import Given, lay_newest, say_state
from .leave_old import Old
from .lost_work import lost_work
from .places import BUCKET, BoxPlace, HomePlace, Kept, Place

_ENDED = ("stopped", "failed", "absent")


@dataclass
class Moving:
    """Brings a run's work to the box where it starts next; one object serves one command."""

    ask: Ask
    asked: bool = False  # by `lease move`, not by `lease run` alone
    from_start: bool = False
    grace_s: float = 30.0
    laid: dict[str, Kept] = field(default_factory=dict)

    def leaves(self, home: Home, plan: Plan, where: Where) -> str:
        """Return the lease that the run may leave to go there; empty: it stays where it is."""
        known = books.run_called(home.ledger, plan.run)
        if known is None:
            return ""
        begun = claims.pending(home.ledger, plan.run)
        if begun is not None and begun.goes_to(where):
            return begun.lease
        lease = books.find_lease(home.ledger, known.lease)
        here = (lease.box, lease.root) == where
        if here:  # it comes back from a move that did not end, or the box lost the run's folder
            return known.lease if begun is not None or self.asked else ""
        return known.lease if self.asked or not lease.open or _has_ended(home, known) else ""

    def lay(self, home: Home, arrival: Arrival, report: Report) -> dict[str, Any]:
        """Lay the newest states before the start; return what the box needs to know at its start."""
        run = arrival.plan.run
        record, begun = books.run_called(home.ledger, run), claims.pending(home.ledger, run)
        if begun is not None and begun.goes_to(arrival.where):
            move: Move | None = begun
        elif record is None or not (record.seq or record.state not in ("planned", "absent")):
            return self._find_again(home, arrival, report)  # as far as this home knows it never began anywhere
        else:
            move = None
        here = record is not None and record.lease == arrival.lease.id
        if move is None and begun is None and here and arrival.state != "absent":
            return self._find_again(home, arrival, report) if sweep_of(run) != run else {}  # here: a resume
        if move is None and not self.leaves(home, arrival.plan, arrival.where):
            return self._find_again(home, arrival, report)
        whence = books.find_lease(home.ledger, move.lease if move else record.lease) if record else arrival.lease
        old = leave_old.visit(home, whence, run, report)
        try:
            return self._move(home, arrival, (books.find_run(home.ledger, run), old), move, report)
        finally:
            old.close()

    def started(self, home: Home, arrival: Arrival, report: Report) -> None:
        """Record that the run goes on on the new box."""
        begun = claims.pending(home.ledger, arrival.plan.run)
        if begun is None or not begun.goes_to(arrival.where):
            return
        home.ledger.append(
            claims.MOVED, lease=arrival.lease.id, run=begun.run, left=begun.lease, box=begun.box, to=begun.to,
            epoch=begun.epoch, states={cell: kept.id for cell, kept in self.laid.items()},
        )  # fmt: skip
        report(Note("moved", f"{begun.run} goes on on {begun.to}; before: {begun.box}", {"run": begun.run}))

    def _move(
        self, home: Home, arrival: Arrival, left: tuple[RunRecord, Old], move: Move | None, report: Report
    ) -> dict[str, Any]:
        record, old = left
        _refuse_finished(record, old)
        places = self.places(home, arrival, old)
        highest, claim = claims.highest_in(places, record.run)
        if move is None:
            self._refuse_unsaved(arrival, record, old, places, home)
            _refuse_foreign(home, record.run, highest, claim, old)
            lease = books.find_lease(home.ledger, record.lease)
            whence, whither = (record.run, lease.id, lease.box), arrival.where
            seen = max(highest, int(((old.seen or {}).get("fence") or {}).get("epoch") or 0))
            move = claims.begin(home.ledger, whence, whither, seen)
        if move.lease != arrival.lease.id:
            leave_old.fence(home, old, move, (self.ask, self.grace_s), report)
            _refuse_finished(record, old)
        for problem in claims.claim_everywhere(home.ledger, places, move):
            report(Note("warning", f"epoch {move.epoch} could not be claimed in {problem}"))
        if move.lease == arrival.lease.id and arrival.state != "absent":
            return move.at_start(home.ledger)  # it comes back to its own disk
        found = in_places(home, record.run, arrival.cells, places, report)
        for cell in arrival.cells:
            disk = on_disk(old, record.run, cell, max(1, move.epoch - 1), lambda count: None, report)
            found[cell] = [*([disk] if disk else []), *found[cell]]
        return self._lay_all(home, arrival, (record, old), move, found, report)

    def _lay_all(
        self, home: Home, arrival: Arrival, left: tuple[RunRecord, Old], move: Move, found: Mapping[str, list[Kept]],
        report: Report,
    ) -> dict[str, Any]:  # fmt: skip
        record, old = left
        chain = {cell: chain_of(home, old, cell, found[cell]) for cell in arrival.cells}
        given = Given(home.ledger.home_id, move.epoch, old.box, chain)
        for cell in arrival.cells:
            kept = lay_newest(arrival, cell, found[cell], given, report)
            if kept is not None:
                self.laid[cell] = kept
            elif not self.from_start and attempts_of(old, cell) != 0:
                raise _no_state(record.run, cell, arrival.where.box, old)
            else:
                report(
                    Note("warning", f"cell {cell} begins at step 0 on {arrival.where.box}: no state of it was found")
                )
        lease = books.find_lease(home.ledger, move.lease)
        lost = lost_work(record, lease, old, next(iter(self.laid.values()), None))
        home.ledger.append(
            claims.LAID, lease=move.lease, run=record.run, epoch=move.epoch, lost=lost.as_dict(),
            states={cell: {"id": kept.id, "step": kept.state.step, "place": kept.place.where}
                    for cell, kept in self.laid.items()},
        )  # fmt: skip
        for cell, kept in self.laid.items():
            say_resumes(cell, kept, old.box, report)
        report(Note("lost", f"trained and not in it: {lost.words}", lost.as_dict()))
        return move.at_start(home.ledger)

    def _find_again(self, home: Home, arrival: Arrival, report: Report) -> dict[str, Any]:
        """Look for states that other boxes made of cells which have not begun here; most runs have none."""
        if not arrival.plan.job.checkpoint.path:
            return {}
        places = self.places(home, arrival, None)
        found = in_places(home, arrival.plan.run, arrival.cells, places, report)
        if not any(found.values()):
            return {}
        if sweep_of(arrival.plan.run) != arrival.plan.run:
            return self._lay_cells(home, arrival, found, report)
        return self._adopt(home, arrival, places, found, report)

    def _lay_cells(
        self, home: Home, arrival: Arrival, found: Mapping[str, list[Kept]], report: Report
    ) -> dict[str, Any]:
        """Lay the newest states of a sweep's cells that this box was given: the box that had them is silent."""
        for cell in arrival.cells:
            states = sorted(found[cell], key=lambda one: (one.state.number, one.state.made_unix), reverse=True)
            chain = {cell: [{"box": states[0].state.box, "attempts": states[0].state.attempt}]} if states else {}
            kept = lay_newest(arrival, cell, states, Given(home.ledger.home_id, 1, "", chain), report)
            if kept is not None:
                say_resumes(cell, kept, kept.state.box, report)
        return {}

    def _adopt(
        self, home: Home, arrival: Arrival, places: list[Place], found: Mapping[str, list[Kept]], report: Report
    ) -> dict[str, Any]:
        """Continue a run that another home, or a box that this one forgot, began: a person must say so."""
        run = arrival.plan.run
        highest, claim = claims.highest_in(places, run)
        newest = next(kept[0] for kept in found.values() if kept)
        box = str(claim.get("box") or newest.state.box or "another box")
        question = (
            f"{newest.place.where} keeps {say_state(newest)} of {run}, made on {box}; this home did not begin it and\n"
            "cannot tell whether it still trains there. Its trainer there ends when it sees the next epoch's claim.\n"
            "(`lease run --again` starts another run at step 0.) To continue it here"
        )
        require_phrase(self.ask, question, f"continue {run}", "nothing was started")
        move = claims.begin(home.ledger, (run, arrival.lease.id, box), arrival.where, highest)
        for problem in claims.claim_everywhere(home.ledger, places, move):
            report(Note("warning", f"epoch {move.epoch} could not be claimed in {problem}"))
        chain = {cell: [{"box": box, "attempts": kept[0].state.attempt}] for cell, kept in found.items() if kept}
        given = Given(home.ledger.home_id, move.epoch, box, chain)
        for cell in arrival.cells:
            kept = lay_newest(arrival, cell, found[cell], given, report)
            if kept is not None:
                self.laid[cell] = kept
                say_resumes(cell, kept, box, report)
        return move.at_start(home.ledger)

    def places(self, home: Home, arrival: Arrival, old: Old | None) -> list[Place]:
        """List the places that may keep states: those that the new box sees, this home, those that the old box sees."""
        plan, where = arrival.plan, arrival.where.box
        found: list[Place] = [BoxPlace(arrival.engine, where, *one) for one in refuges_of(plan, plan.environment)]
        found.append(HomePlace(arrival.results))
        known = books.run_called(home.ledger, plan.run)
        if old is not None and old.engine is not None and old.seen is not None and known is not None:
            before = json.loads(known.plan_json).get("environment") or {}
            there = [one for one in refuges_of(plan, before) if not one[0].startswith(BUCKET)]
            found += [BoxPlace(old.engine, old.box, *one) for one in there]
        return found

    def _refuse_unsaved(self, arrival: Arrival, record: RunRecord, old: Old, places: list[Place], home: Home) -> None:
        """Refuse before anything is stopped if nothing could be resumed."""
        if self.from_start or arrival.plan.job.checkpoint.path or (old.seen or {}).get("cells"):
            return
        found = in_places(home, record.run, arrival.cells, places, lambda note: None)
        if not any(found.values()):
            raise _no_state(record.run, arrival.cells[0], arrival.where.box, old, names_none=True)


def say_resumes(cell: str, kept: Kept, box: str, report: Report) -> None:
    """Report the state that a cell goes on from."""
    text = f"cell {cell} goes on from {say_state(kept)} of {box}, found in {kept.place.where}"
    data = {"cell": cell, "state": kept.id, "step": kept.state.step, "place": kept.place.where}
    report(Note("resumes_from", text, data))


def refuges_of(plan: Plan, environment: Mapping[str, Any]) -> list[tuple[str, Mapping[str, str]]]:
    """List the refuges of a run on one platform in the job's order, each with the keys that open it."""
    durable = str(environment.get("durable") or "")
    named = plan.job.checkpoint.refuge or (("durable",) if durable else ())
    folders: list[tuple[str, Mapping[str, str]]] = [
        (durable, {}) for name in named if name == "durable" and durable.startswith("/")
    ]
    buckets = [name for name in named if name.startswith(BUCKET)]
    keys = {**plan.job.env, **secret_values(plan.job)} if buckets else {}
    return [*folders, *((name, keys) for name in buckets)]


def chain_of(home: Home, old: Old, cell: str, found: list[Kept]) -> list[dict[str, Any]]:
    """List the boxes where a cell was, the first one first, with the attempts that it had there."""
    seen = (old.seen or {}).get("cells", {}).get(cell, {})
    before = [one for one in seen.get("came") or () if isinstance(one, dict)]
    attempts = attempts_of(old, cell)
    newest = found[0].state if found else None
    if attempts is None and newest is not None:
        attempts = newest.attempt  # at least
    return [*before, {"box": old.box, "attempts": attempts}]


def _refuse_finished(record: RunRecord, old: Old) -> None:
    if old.seen is not None and old.seen["state"] == "finished":
        raise UserError(
            "run.finished", f"{record.run} has finished on {old.box}: there is nothing left to move",
            hint=f"lease pull {record.run} brings its results home",
        )  # fmt: skip


def _has_ended(home: Home, record: RunRecord) -> bool:
    """Return whether the run's box answers that it has stopped or failed there, or knows nothing of it any more."""
    if not record.seq and record.state in ("planned", "absent"):
        return False
    try:
        with box_of(home, books.find_lease(home.ledger, record.lease)).look_in() as engine:
            return str(engine.observe.look(record.run)["state"]) in _ENDED
    except LeaseholdError:
        return False


def _refuse_foreign(home: Home, run: str, highest: int, claim: Mapping[str, Any], old: Old) -> None:
    """Refuse to move a run that another home moved: this one does not know where it is."""
    if not highest or claim.get("home") in ("", None, home.ledger.home_id):
        return
    fenced = bool((old.seen or {}).get("fence"))
    if old.seen is None or fenced:
        raise claims.raced(run, claim, "its refuge")


def _no_state(run: str, cell: str, to: str, old: Old, *, names_none: bool = False) -> Refusal:
    why = "its job names no checkpoint" if names_none else "none that is whole was found"
    searched = f"{old.box}{f' ({old.why})' if old.why else ''}, the refuges and this home were searched"
    return Refusal(
        "move.no_state",
        f"cell {cell} of {run} has no state to go on from: {why}; it would begin at step 0 on {to}",
        seen=searched,
        hint=f"lease move {run} --to {to} --from-start begins it there at step 0",
    )
