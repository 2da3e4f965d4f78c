"""The caretaker: one per run, the only writer of its journal.

It starts keepers, decides what follows an attempt, and writes status.json. Its successor continues from the journal.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, Optional, Type

from leasehold.caretaker.attempt.keeper import Wakeups
from leasehold.caretaker.attempt.platform_shell import hook_failed, say_hook
from leasehold.caretaker.failure import disk_gate
from leasehold.caretaker.kubernetes.epoch import fence_of
from leasehold.caretaker.monitor.quick_look import worth_a_look
from leasehold.caretaker.process.locks import HeldLock, Superseded, wait_lock
from leasehold.caretaker.run import disk_reserve
from leasehold.caretaker.run.lock_owner import sign
from leasehold.caretaker.run.restore_events import restate
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.scrub_secrets import Scrubber
from leasehold.kit.files.file_layouts import STATUS
from leasehold.kit.files.journal import Journal
from leasehold.kit.run.run_state import SEAL, CellState, RunState, fold
from leasehold.kit.run.run_states import FAILED, FINISHED, STOPPED
from leasehold.kit.run.subreaper import adopt_orphans

from . import refuge_turn
from .attempts import Attempts
from .card_slots import Places, hear_roster, in_order, left_alone
from .closing import close
from .lazy_parts import is_made, late
from .preemption import Preemption
from .stages import Chain, stage_of

if TYPE_CHECKING:
    from leasehold.caretaker.artifacts.durable_watch import DurableCopy
    from leasehold.caretaker.downloads.download_watch import Downloads
    from leasehold.caretaker.monitor.patrol import Patrol
    from leasehold.caretaker.notices.dispatcher import Watcher
    from leasehold.caretaker.refuge.publish_watch import Publication
    from leasehold.caretaker.refuge.refuge_watch import Refuge
    from leasehold.caretaker.run.handbook import Handbook
    from leasehold.caretaker.run.work_clock import WorkClock

    from .liveness import Pulse
    from .recover import Recovery
    from .stop import Stopping
    from .withdraw_cell import Withdrawal

_LOCK_WAIT_S = 0.5
_TICK_S = 1.0
_HEARTBEAT_S = 5.0
_STARTING_TICK_S = 0.02
_STOPPING_TICK_S = 0.1
_RESERVE_EVERY_S = 60.0
_BUDGET_EVERY_S = 2.0
_DUE = float("-inf")


def care(folder: RunFolder, detach: str = "", resume_by: str = "") -> int:
    """Care for the run until nothing is left to do; exit at once if another caretaker does."""
    lock = wait_lock(folder.caretaker_lock, _LOCK_WAIT_S)  # an observer holds it for a moment
    if lock is None:
        return 0
    plan = folder.read_plan()
    if plan is None:
        return 1
    caretaker = Caretaker(folder, plan)
    caretaker.tenure = HeldLock(folder.caretaker_lock, lock)
    try:
        caretaker.open(sign(lock), detach, resume_by)
        caretaker.live()
    except Superseded:  # our lock's file was deleted, and another caretaker holds the new one
        if is_made(caretaker, "patrol"):
            caretaker.patrol.end()
        return 0
    if os.path.exists(folder.relaunch):
        from leasehold.caretaker.reboot.resume_hook import remove

        remove(folder)
    if os.path.exists(folder.notify):
        from leasehold.caretaker.notices.reminder import begin  # late: its imports would weigh on the whole run

        begin(folder)
    return 0


class Caretaker:
    """The loop over cells, with the journal as its only memory."""

    keeps: Type[Attempts] = Attempts
    tenure: Optional[HeldLock] = None  # what makes it the only one
    follow: FrozenSet[str] = frozenset()  # events that need not be durable before the next one is
    work: WorkClock = late("leasehold.caretaker.run.work_clock", "WorkClock")
    recovery: Recovery = late("leasehold.caretaker.supervisor.recover", "Recovery")
    stopping: Stopping = late("leasehold.caretaker.supervisor.stop", "Stopping")
    pulse: Pulse = late("leasehold.caretaker.supervisor.liveness", "Pulse")
    downloads: Downloads = late("leasehold.caretaker.downloads.download_watch", "Downloads")
    watcher: Watcher = late("leasehold.caretaker.notices.dispatcher", "Watcher")
    withdrawal: Withdrawal = late("leasehold.caretaker.supervisor.withdraw_cell", "Withdrawal")
    copy: DurableCopy = late("leasehold.caretaker.artifacts.durable_watch", "DurableCopy")
    publication: Publication = late("leasehold.caretaker.refuge.publish_watch", "Publication")
    refuge: Refuge = late("leasehold.caretaker.refuge.refuge_watch", "Refuge")
    handbook: Handbook = late("leasehold.caretaker.run.handbook", "Handbook")
    patrol: Patrol = late("leasehold.caretaker.monitor.patrol", "Patrol")

    def __init__(self, folder: RunFolder, plan: Dict[str, Any]) -> None:
        self.folder = folder
        self.plan = plan
        self.fence = fence_of(folder, os.environ)
        self.signals = Wakeups()
        self.journal = Journal(folder.journal, self.follow)
        self.run: RunState = fold(self.journal.events)
        self.adopts = folder.respawns and adopt_orphans()
        self.scrubber = Scrubber(folder)
        self.beat_at, self.money_at, self.reserve_at, self.refuge_at = _DUE, 0.0, 0.0, _DUE
        self.attempts = self.keeps(folder, plan, self.note, self.scrubber.finish)
        self.chain = Chain(folder, plan, self.note)
        self.preemption = Preemption(folder, plan, self.note)
        self.places = Places(plan)

    def join(self, part: str, made: Any) -> None:
        """Connect a new part to the ones that it needs."""
        if part == "pulse":
            made.facts = self.patrol.facts
        elif part == "recovery":
            made.left_s = self.preemption.left_s

    def settled(self) -> bool:
        """Return whether this life is long enough for readings, a handbook and a status; a box's always is."""
        return True

    def open(self, who: Dict[str, Any], detach: str, resume_by: str) -> None:
        """Record that this caretaker took over, and a person's request to resume."""
        if self.run.seq and self.folder.respawns:
            restate(self.folder, self.plan, self.run, self.journal.events, self.note)
        if self.run.seq == 0:
            cells = list(self.plan["cells"])
            self.note("run_opened", plan_sha256=self.plan["plan_sha256"], cells=cells, detach=detach, **who)
        elif resume_by and self.run.state in (FAILED, STOPPED):
            self.note("resumed", by=resume_by, detach=detach, **left_alone(self.folder), **who)
        elif self.run.terminal and not self._hear_added():
            return  # respawned while another one was already ending the run: nothing to add to its journal
        else:
            self.note("caretaker_started", detach=detach or self.run.detach, **who)
        self._hear_added()
        platform = self.folder.platform()
        if platform.get("tensorboard_dir"):
            from .tensorboard_link import link

            if (linked := link(self.folder, platform, self.plan["cells"])) is not None:
                self.note("tensorboard_linked", **linked)
        self._beat(force=True)  # the process that started us may look at once

    def live(self) -> None:
        """Loop until the run is over."""
        while not self.run.terminal and not self.leaves():
            with contextlib.suppress(OSError):  # a full disk must not end the watch over a trainer
                if self.tenure is not None and self.tenure.check():
                    self.note("lock_retaken", path=self.tenure.path)
                self._reap()
                refuge_turn.mind(self)
                self._hear_stop()
                self._hear_added()
                self._turn()
                self.attempts.heard_unix = 0.0
                self._mind_budget()
                self._keep_reserve()
            self.scrubber.turn([(name, cell.attempt) for name, cell in self.run.cells.items()])
            if self.settled():
                self.patrol.step(self.run, self.journal.events, self.signals.clear)
                self.handbook.step(self.run)
            if is_made(self, "watcher") or os.path.exists(self.folder.notify):
                self.watcher.step(self.signals.clear)
            self._beat()
            if not self.run.terminal:
                self.signals.sleep(self._pause_s())
        if is_made(self, "patrol"):
            self.patrol.end()
        if is_made(self, "refuge"):
            self.refuge.end()
        self._beat(force=True)
        self.journal.close()
        disk_reserve.drop(self.folder)
        self.scrubber.finish_downloads()
        self.folder.forget_secrets()  # a resume brings them anew

    def leaves(self) -> bool:
        """Return whether another process will continue the run before its end; a box's caretaker never leaves it."""
        return False

    def note(self, kind: str, **data: Any) -> None:
        """Journal an event and fold it in; a full disk gives up its reserve for it."""

        def write() -> None:
            self.fence()  # raises Superseded once a later pod took the run over
            fold([self.journal.append(kind, **self.scrubber.tree(data))], into=self.run)

        disk_reserve.with_room(self.folder, write)
        self.beat_at = _DUE  # once a turn: a turn's work, above all a trainer's start, must not wait for it

    def _turn(self) -> None:
        if self.signals.terminate:
            self.signals.terminate = False
            self.preemption.notice(self.run, "SIGTERM")
        free = self.places.count()
        if any(cell.leaves for cell in self.run.cells.values()):
            free -= self.withdrawal.step(self.run, self.attempts, self.signals.clear)
        for name, cell in in_order(self.run):
            if cell.state in ("starting", "running"):
                self.attempts.look(name, cell, self.signals.clear)
            if cell.state == "running" and self.settled():
                self.pulse.step(name, cell)
            self.preemption.step(name, cell)
            self._judge(name, cell)
            if cell.state == "pending" and self.run.state == "running":
                if not self.has_data():
                    return
                self._begin(name, cell)
            free -= cell.state == "pending" or self.places.has_place(cell)
            if free <= 0:
                break  # one cell at a time on a card
        if not any(cell.state in ("starting", "running") for cell in self.run.cells.values()):
            close(self)

    def has_data(self) -> bool:
        """Return whether all that the job downloads is here; what cannot be had ends the run."""
        if not self.plan["job"].get("downloads") or self.downloads.step(self.journal.events, self.signals.clear):
            return True
        if self.downloads.problem:
            self.note("run_failed", reason=self.downloads.problem)
        return False

    def _begin(self, name: str, cell: CellState) -> None:
        """Start the stage that a cell is due for, once its wait is over and the disk has room for it."""
        stage = stage_of(self.plan["job"], cell)
        if stage == SEAL and cell.classed == cell.attempt:
            self.recovery.step(name, cell, self.signals.clear)
            return
        if stage == SEAL:
            self.chain.seal(name, cell, self.journal.events, self.signals.clear)
            return
        if (cell.wait_s and self.recovery.waits_s(name, cell) > 0) or self.preemption.left_s() > 0:
            return
        if cell.attempt and self.folder.respawns and not self.chain.clearing.step(name, cell, self.signals.clear):
            return  # a process of an earlier attempt, or a foreign one, still writes in its folders
        short = disk_gate.shortage(self.folder, self.plan, name, cell.attempt + 1)
        if short is None:
            how = {"stage": stage, "cards": self.places.free(self.run)}
            self.attempts.start(name, cell, how, self.signals.clear)
            return
        self.note("disk_short", cell=name, attempt=cell.attempt + 1, **short)
        self.note("cell_failed", cell=name, attempt=cell.attempt, why=disk_gate.say(short))

    def _judge(self, name: str, cell: CellState) -> None:
        """Decide what follows an attempt that has ended, step by step as far as possible now."""
        if worth_a_look(self.folder, name, cell, is_made(self, "patrol")):
            self.patrol.last(name, cell, self.journal.events)
        seen = -1
        while cell.state == "ended" and self.run.seq != seen:
            seen = self.run.seq
            self._judge_once(name, cell)

    def _judge_once(self, name: str, cell: CellState) -> None:
        hooked = None if cell.lost else self._hook_failed(name, cell)
        if hooked is not None and self.run.state != "stopping":
            self.note("hook_failed", cell=name, attempt=cell.attempt, **hooked)
            self.note("cell_failed", cell=name, attempt=cell.attempt, why=say_hook(hooked))
        elif self.went_well(cell) and hooked is None:
            self._go_on(name, cell)
        elif self.run.state != "stopping":
            self.recovery.step(name, cell, self.signals.clear)

    def went_well(self, cell: CellState) -> bool:
        """Return whether a cell's newest attempt ended as its next stage needs it."""
        well = cell.code == 0 or (cell.unseen and bool(self.plan.get("adopted")))  # then its artifacts decide
        return well and cell.classed != cell.attempt

    def _go_on(self, name: str, cell: CellState) -> None:
        if cell.stage not in cell.passed:
            self.chain.passed(name, cell)
        elif stage_of(self.plan["job"], cell) == SEAL:
            self.chain.seal(name, cell, self.journal.events, self.signals.clear)

    def _hook_failed(self, name: str, cell: CellState) -> Optional[Dict[str, Any]]:
        log = os.path.join(self.folder.attempt(name, cell.attempt), "log")
        return hook_failed(self.folder.hook_due(name, cell.attempt), cell.code, log)

    def _hear_added(self) -> bool:
        """Add cells that joined the sweep; their promises are in the plan that is read then."""
        if not os.path.exists(self.folder.roster) or not hear_roster(self.folder, self.run, self.note):
            return False
        self.plan.update(self.folder.read_plan() or {})
        vars(self).pop("copy", None)  # the next one copies the new cells too
        vars(self).pop("publication", None)
        return True

    def _hear_stop(self) -> None:
        if self.run.state != "stopping" and not os.path.exists(self.folder.stop):
            return
        grace_s = self.stopping.hear(self.run)
        if self.run.state != "stopping":
            return
        self.downloads.end()
        for name, cell in self.run.cells.items():
            if cell.state == "running":
                self.stopping.press(name, cell, grace_s)

    def _mind_budget(self) -> None:
        """Check the run's budget every few seconds."""
        if self.run.state != "running" or time.monotonic() - self.money_at < _BUDGET_EVERY_S:
            return
        self.money_at = time.monotonic()
        if os.path.exists(self.folder.budget):
            from .budget import mind

            mind(self.folder, self.plan, self.run, self.journal.events, self.note)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if is_made(self, "watcher"):
                self.watcher.reaped(pid, status)
            self.attempts.reaped(self.run, pid, status, usage)

    def _keep_reserve(self) -> None:
        """Reserve disk space for the last records while there is some; not before the first attempt, to launch fast."""
        lives = self.settled() and any(cell.state == "running" for cell in self.run.cells.values())
        if lives and time.monotonic() >= self.reserve_at:
            self.reserve_at = time.monotonic() + _RESERVE_EVERY_S
            disk_reserve.keep(self.folder)

    def _pause_s(self) -> float:
        cells = self.run.cells
        if any(cell.state == "starting" for cell in cells.values()):
            return _STARTING_TICK_S
        if self.run.state == "stopping" or any(cell.leaves for cell in cells.values()):
            return _STOPPING_TICK_S
        pending = [(name, cell) for name, cell in cells.items() if cell.state == "pending" and cell.wait_s]
        waits = [self.recovery.waits_s(name, cell) for name, cell in pending]
        forward_s = self.preemption.due_s()
        return min([_TICK_S, *(wait for wait in waits if wait > 0), *([forward_s] if forward_s is not None else [])])

    def _health(self) -> Dict[str, Any]:
        """Format the health of the cell at work, or of the last one."""
        from leasehold.kit.run import cell_health

        found: Dict[str, Any] = {}
        for name, cell in self.run.cells.items():
            felt = self.pulse.health(name) if cell.state in ("starting", "running") else None
            judged = felt or cell_health.judge(cell_health.of_ended(cell.as_dict()))
            evidence, alarms = list(judged.evidence), self.patrol.alarms
            found = {"cell": name, "state": judged.state, "evidence": evidence, "alarms": alarms}
            if cell.state not in (FINISHED, FAILED, STOPPED):
                break
        return found

    def _beat(self, force: bool = False) -> None:
        now = time.monotonic()
        if not self.settled() or (not force and now - self.beat_at < _HEARTBEAT_S):
            return
        self.beat_at = now
        value = self.run.as_dict()
        value.update(
            schema=STATUS, run=self.folder.run, caretaker_pid=os.getpid(), heartbeat_unix=round(time.time(), 3)
        )
        work = self.work.figures(self.journal.events, self.run, time.time())
        value.update(work=work, readings=self.patrol.facts(), health=self._health())
        value = self.scrubber.tree(value)  # its judgement of a log may quote it
        with contextlib.suppress(OSError):  # the journal stays the record
            disk_reserve.write_status(self.folder, value, last=self.run.terminal)
