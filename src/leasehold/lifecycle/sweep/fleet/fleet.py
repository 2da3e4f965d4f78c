"""A sweep over several boxes: each has its own run and queue, so that they work on while this home sleeps.

While this home watches, a box whose queue is empty takes waiting cells from the one that would end last, the cells of
a box that stays unreachable go to the others, and a box that comes back gives up what others have by now.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leasehold.errors import LeaseholdError, LinkError, NotDurable, Refusal, RunFailed, UserError, VerifyError
from leasehold.kit.run.run_state import fold
from leasehold.lifecycle.approval.phrase import terminal_ask
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.launch.run_records import generation
from leasehold.lifecycle.machine.box import Box, find_box
from leasehold.lifecycle.preflight.unread_parameters import unread
from leasehold.lifecycle.project.code_tree import RESULTS
from leasehold.lifecycle.project.excluded import say_home_stays
from leasehold.lifecycle.project.ignored_data import say_of_job
from leasehold.lifecycle.project.job_yaml import read_job
from leasehold.lifecycle.project.resolve import refuse_unfilled, run_id
from leasehold.lifecycle.project.run_inputs import gather
from leasehold.lifecycle.records.orders import RunOrder, RunOutcome
from leasehold.lifecycle.run.run_job import give_more, run_through
from leasehold.lifecycle.sweep.report.sweep_status import standing
from leasehold.model.job.job import Job
from leasehold.model.run.note import Note, Report
from leasehold.model.run.sweep import Standing
from leasehold.model.values.wording import ago

from .assignment import TAKEN_OVER, Shares
from .claim_boxes import claim_all, say_onlooker, take_over_all
from .estimates import Estimates, recall, remember, times_of, waiting
from .inbox import Hearing
from .member import Member, give_up, hang_up, in_plan_order, meet, record_of, settled_cells
from .reconnect import Visits

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import RunSeen

_TICK_S = 2.0
_ROUNDS = 100  # seconds between looks at how another home assigns cells
_QUIET = ("log", "progress")
_TELLING = ("attempt_started", "cell_finished", "cell_failed")
_NO_TERMINAL = "a take-over is typed by a person on a terminal; there is no other way"


def run_fleet(home: Home, order: RunOrder, names: Sequence[str], report: Report) -> Standing:
    """Run a job's cells over these boxes and bring every one home; the identical call continues where it stopped."""
    job = read_job(order.job_file)
    refuse_unfilled(job, order.job_file)
    if not job.cells:
        hint = "give the job cells:, or name one box"
        raise UserError("sweep.no_cells", f"{len(names)} boxes were named, and {job.name} is one run", hint=hint)
    if len(set(names)) != len(names):
        raise UserError("sweep.twice", f"a box is named twice: {', '.join(names)}", hint="name each once")
    return _Fleet(home, order, job, report).go([find_box(home, name, root=order.root) for name in names])


class _Fleet:
    def __init__(self, home: Home, order: RunOrder, job: Job, report: Report) -> None:
        self._home = home
        self._order = order
        self._job = job
        self._hearing = Hearing(home)
        self._lock = threading.Lock()
        self._report = report
        self._project = project = order.job_file.absolute().parent
        results = (order.results or project / RESULTS).absolute()
        job, tree = gather(home, job, order.job_file, results, report)
        self._job = job
        missed = say_of_job(home, job, order.job_file, results)
        for warning in filter(None, (unread(job, tree), say_home_stays(home, tree.folder, tree.left_out), missed)):
            report(Note("warning", warning))
        self._order = replace(order, prepared=(job, tree))
        self._again = generation(home, job, tree, again=order.again)  # once for all boxes
        self._sweep = run_id(job, tree.identity) + (f"-{self._again}" if self._again else "")
        costs = {cell.name: cell.cost for cell in job.cells}
        estimates = Estimates(costs, recall(home.ledger, job.name))
        self._shares = Shares(home, self._sweep, [], estimates, self._say)
        self._visits = Visits(self._answers, lambda member: meet(member, self._sweep, self._job))

    def go(self, boxes: Sequence[Box]) -> Standing:
        members = [Member(box) for box in boxes]
        self._shares.members = members
        try:
            self._meet(members)
            self._open(members)
            self._look_on(members)
        finally:
            self._visits.end()
            hang_up(members)
        return self._reckon(members)

    # ------------------------------------------------------------------ start

    def _meet(self, members: list[Member]) -> None:
        """Ask every box for its identity; a silent one is visited until it answers."""

        def one(member: Member) -> None:
            try:
                meet(member, self._sweep, self._job)
            except LeaseholdError as error:
                member.lost(error.message)

        threads = [threading.Thread(target=one, args=(member,), daemon=True) for member in members]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        met = [member for member in members if not member.problem]
        if not met:
            problems = "; ".join(f"{member.box.name}: {member.problem}" for member in members)
            raise LinkError("link.none", "none of the boxes answers", hint=problems)
        if len({member.suffix for member in met}) != len(met):
            raise UserError(
                "sweep.same_box", "two of the names are one and the same box", hint="lease box list shows them"
            )

    def _open(self, members: list[Member]) -> None:
        """Hold the sweep, or only follow where another home does; then every box starts or continues its own run."""
        met = [member for member in members if not member.problem]
        if self._order.take_over:
            ask = (self._sweep, lambda question: terminal_ask(question, _NO_TERMINAL))
            take_over_all(self._home, met, self._job, ask, self._report)
        holder = claim_all(self._home, met)
        for member in members:
            if member.problem:
                self._knows_run(member)
                self._visits.begin(member)
        self._shares.onlooker = bool(holder)
        free = self._shares.take_up()
        for member in members:
            if member.problem:
                self._say(member, Note("unknown", f"gets no cells now: {member.problem}{self._when_moved(member)}"))
        self._shares.say_vanished()
        self._shares.fence()
        if holder:
            self._report(Note("warning", say_onlooker(holder, len(free)), {"holder": holder}))
        elif free:
            self._shares.deal(free)
        for platform in {member.box.platform for member in met}:
            self._home.shelf(self._project).load(platform)  # once here, instead of in every launch at the same moment
        for member in members:
            if not member.problem and member.cells:
                self._begin(member)
        hang_up([member for member in members if not member.busy])

    def _when_moved(self, member: Member) -> str:
        """Describe what happens to the cells of a box that does not answer."""
        owed = len(self._owes(member))
        if not owed or self._shares.onlooker or self._order.detach:
            return f"; it has {owed} of the cells" if owed else ""
        return f"; its {owed} cells go to the others if it stays silent for {ago(self._order.patience_s)}"

    def _knows_run(self, member: Member) -> None:
        """Return the run of a box that does not answer, as far as this home has recorded it."""
        from leasehold.lifecycle.records.sweep_parts import parts_of

        try:
            records = parts_of(self._home, self._sweep)
        except UserError:
            return
        record = next((one for one in records if one.box == member.box.name), None)
        if record is not None:
            member.run, member.suffix = record.run, record.run[len(self._sweep) + 1 :]

    # ------------------------------------------------------------------ during the run

    def _look_on(self, members: list[Member]) -> None:
        for _ in range(_ROUNDS):
            while self._goes_on(members):
                self._turn(members)
            if self._order.detach or not self._shares.onlooker or not self._follow_holder(members):
                return

    def _goes_on(self, members: list[Member]) -> bool:
        """Return whether a box is at work, or a silent one has cells that may still be moved."""
        if any(member.busy or member.handing for member in members):
            return True
        moves = not self._order.detach and not self._shares.onlooker
        return moves and any(member.problem and not member.moved and self._owes(member) for member in members)

    def _turn(self, members: list[Member]) -> None:
        self._hearing.hear(_TICK_S)
        if self._order.detach or self._shares.onlooker:
            return
        for member in members:
            patience_s = self._order.patience_s or float("inf")
            silent_s = time.monotonic() - member.silent_since
            if member.problem and not member.busy and not member.moved and silent_s > patience_s:
                self._move_from(member)
            elif self._is_free(member) and (found := self._shares.wanted_by(member)):
                self._help(member, *found)

    def _help(self, idle: Member, last: Member, wanted: list[str]) -> None:
        """Move waiting cells from one box to another, in the background: neither is asked twice meanwhile."""
        idle.handing = last.handing = True
        idle.handed_at = time.monotonic()

        def ask(home: Home) -> Callable[[Member], None]:
            wish = {"release": wanted, "to": idle.suffix}
            try:
                moved, seen = give_up(home, last, wish)
            except LeaseholdError as error:
                problem = error
                return lambda one: self._helped(one, last, [], problem)
            return lambda one: self._helped(one, last, moved, seen)

        self._hearing.aside(idle, ask)

    def _helped(self, idle: Member, last: Member, moved: list[str], told: RunSeen | LeaseholdError) -> None:
        idle.handing = last.handing = False
        idle.handed_at = idle.handed_at if moved and idle.busy else 0.0
        if isinstance(told, LeaseholdError):
            self._shares.not_given_up(last, told)
            return
        last.heard(told)
        if moved:
            self._shares.hand_over(last, moved, idle)
            self._give(idle)

    def _is_free(self, member: Member) -> bool:
        """Return whether a working box has nothing left to begin."""
        coming = any(name not in member.state.cells for name in member.cells)
        return not (member.problem or member.unfit or member.handing or coming or waiting(member.state))

    def _move_from(self, dead: Member) -> None:
        owed = self._owes(dead)
        dead.moved = True
        if owed:
            self._say(dead, Note("unknown", f"stays unreachable: {dead.problem}"))
            for member in self._shares.move_from(dead):
                self._give(member)

    def _give(self, member: Member) -> None:
        """Make a box start, or add cells while it is at work."""
        if not member.busy:
            self._begin(member)
            return
        member.handing, member.handed_at = True, member.handed_at or time.monotonic()
        order = self._order_of(member)

        def give(home: Home) -> Callable[[Member], None]:
            try:
                give_more(home, order, member.box)
            except LeaseholdError as error:
                problem = error
                return lambda one: self._given(one, problem)
            return lambda one: self._given(one, None)

        self._hearing.aside(member, give)

    def _given(self, member: Member, problem: LeaseholdError | None) -> None:
        member.handing = False
        self._shares.handed_over(time.monotonic() - member.handed_at)
        member.handed_at = 0.0
        if problem is not None:
            self._stumble(member, problem)
        elif not member.busy and self._owes(member):  # it ended meanwhile
            self._begin(member)

    def _begin(self, member: Member) -> None:
        member.busy, member.failed, member.not_durable = True, "", None
        member.begun_at = time.monotonic()
        order = self._order_of(member)
        self._hearing.aside(member, lambda home: self._tend(member, order, home), "tend")

    def _order_of(self, member: Member) -> RunOrder:
        return replace(
            self._order,
            on=member.box.name,
            cells=tuple(in_plan_order(self._home, member)),
            part=member.suffix,
            generation=self._again,
            given=self._shares.stamps(member),
        )

    def _tend(self, member: Member, order: RunOrder, home: Home) -> Callable[[Member], None]:
        """Follow one box's run to its end."""
        outcome: RunOutcome | None = None
        error: LeaseholdError | None = None
        try:
            outcome = run_through(home, order, member.box, lambda note: self._say(member, note))
        except LeaseholdError as caught:
            error = caught
        return lambda one: self._ended(one, outcome, error)

    def _ended(self, member: Member, outcome: RunOutcome | None, error: LeaseholdError | None) -> None:
        member.busy = False
        remember(self._home.ledger, self._job.name, member.run, times_of(member.state))
        if isinstance(error, LinkError):
            member.lost(error.message)
            member.silent_since = member.begun_at  # its follower has already waited for it
            self._visits.begin(member)
        elif error is not None:
            self._stumble(member, error)
        elif not self._order.detach and not member.handing and self._owes(member):  # it was given more just as it ended
            self._begin(member)

    def _stumble(self, member: Member, error: LeaseholdError) -> None:
        ran = isinstance(error, RunFailed | NotDurable | VerifyError)
        self._say(member, Note("warning", error.message + ("" if ran or not error.hint else f"; {error.hint}")))
        if error.code == TAKEN_OVER:
            self._shares.lose()
            return
        member.failed = error.message
        member.not_durable = error if isinstance(error, NotDurable) else None
        member.unfit = not ran
        for other in self._shares.deal_again(member) if member.unfit and not self._order.detach else ():
            self._give(other)

    def _owes(self, member: Member) -> list[str]:
        record = record_of(self._home, member.run)
        done = settled_cells(record) if record else set()
        return [name for name in member.cells if name not in done]

    # ------------------------------------------------------------------ a returning box

    def _answers(self, member: Member, fresh: Member) -> None:
        self._hearing.tell(member, lambda one: self._back(one, fresh))

    def _back(self, member: Member, fresh: Member) -> None:
        """Readmit a box that was silent; it gives up what others were given meanwhile."""
        self._report(Note("link_back", f"{member.box.name}: answers again"))
        vars(member).update({**vars(fresh), "cells": member.cells})
        holder = {} if self._shares.onlooker else claim_all(self._home, [member])
        if holder:
            self._shares.lose()
            self._report(Note("warning", say_onlooker(holder, 0)))
        if member.problem:
            self._visits.begin(member)
            return
        self._shares.take_back(member)
        if member.cells and not self._order.detach:
            self._begin(member)
        else:
            hang_up([member])

    def _follow_holder(self, members: list[Member]) -> bool:
        """Look again at what each box has, since another home gives cells; return whether there is more to follow."""
        for member in members:
            if member.problem:
                continue
            try:
                with member.wire() as engine:
                    member.heard(engine.observe.look(member.run))
            except LeaseholdError as error:
                member.lost(error.message)
        self._shares.take_up()
        more = [member for member in members if not member.problem and not member.failed and self._owes(member)]
        for member in more:
            self._begin(member)
        if more or any(member.state.cells for member in members):
            return bool(more)
        time.sleep(_TICK_S)  # the home that shares it out has just claimed it and begun nothing yet
        return True

    # ------------------------------------------------------------------ end and report

    def _reckon(self, members: list[Member]) -> Standing:
        runs = [member.run for member in members if record_of(self._home, member.run)]
        if not runs and self._shares.onlooker:
            hint = "once it has begun, the same command follows it; if that home is gone, add --take-over"
            raise Refusal(TAKEN_OVER, f"another home shares {self._sweep} out and has begun nothing yet", hint=hint)
        if not runs:
            problems = "; ".join(f"{one.box.name}: {one.problem or one.failed}" for one in members)
            raise RunFailed("sweep.not_started", f"no box took a cell: {problems}")
        found = standing(self._home, self._sweep, ask=not self._order.detach)
        lacking = [member.not_durable for member in members if member.not_durable]
        if lacking and found.settled:  # a failed cell is reported first; what is not copied fails all the same
            raise NotDurable(lacking[0].code, "; ".join(error.message for error in lacking), hint=lacking[0].hint)
        return found

    def _say(self, member: Member, note: Note) -> None:
        if note.kind == "event":
            self._hearing.tell(member, lambda one: self._heard_event(one, note.data))
        if note.kind in _QUIET:
            return
        with self._lock:
            self._report(Note(note.kind, f"{member.box.name}: {note.text}", note.data))

    def _heard_event(self, member: Member, event: dict[str, Any]) -> None:
        if event["n"] > member.state.seq:
            fold([event], into=member.state)
        if event["k"] in _TELLING:
            for name, seconds in times_of(member.state).items():
                self._shares.estimates.timed(name, seconds)
