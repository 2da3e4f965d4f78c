"""Task of the array: the caretaker of one cell, in the place of the batch script.

When its time is nearly up (`--signal=B:TERM@lead`), it has the trainer save and exit, and requeues the task: Slurm
starts the same task again, and the cell's journal shows where to continue.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from typing import Any, Dict, Mapping, NamedTuple, Optional

from leasehold.caretaker.attempt.working_copy import prepare_cell
from leasehold.caretaker.process.locks import HeldLock, Superseded, wait_lock
from leasehold.caretaker.run.lock_owner import sign
from leasehold.caretaker.run.run_folder import CellFolder, RunFolder
from leasehold.caretaker.slurm_queue.allocation import lent
from leasehold.caretaker.slurm_queue.plan_slices import keep_share, share_of
from leasehold.caretaker.slurm_queue.uses_slurm import EX_TEMPFAIL
from leasehold.caretaker.supervisor.caretaker import Caretaker
from leasehold.kit.files.atomic import read_json
from leasehold.kit.run.run_state import CellState
from leasehold.kit.run.run_states import FAILED, STOPPED

from .end_notice import begin_cell, end_cell, is_of_cell
from .own_attempts import OwnAttempts

_LOCK_WAIT_S = 120.0  # a failed node may hold the cell for a while; Slurm has fenced it by then
_BEFORE_THE_WALL_S = 20.0  # a trainer that does not exit is requeued with the task, not lost with it
_TOO_SOON_S = 120.0  # Slurm may send the early signal a minute too soon, and checks twice a minute
_SETTLED_AFTER_S = 1.0
_AT_ONCE_BYTES = 4 << 20  # hashed in milliseconds
# Events that only repeat a record beside the journal, or that can be found again, become durable with the next event:
# if the node dies in between, the next caretaker journals them anew.
_FOLLOW = frozenset(("attempt_started", "attempt_ended", "stage_passed", "cell_sealed", "cell_finished"))
_NO_INPUT = 64


class Order(NamedTuple):
    """The batch script's facts of its submission, so that a task need not read those of all the others."""

    number: int
    by_person: bool = True  # a person's command submitted it, and wants a failed cell tried anew
    lead_s: float = 90.0
    wall_s: float = 0.0  # 0 is unknown


def task(run: RunFolder, order: Order, environ: Mapping[str, str]) -> int:
    """Care for the cell that this task was given; return the exit code for Slurm."""
    plan = share_of(run, order.number, int(environ.get("SLURM_ARRAY_TASK_ID", "0")))
    if plan is None:
        return _say("submission %d of %s has no such task" % (order.number, run.path), _NO_INPUT)
    (cell,) = plan["cells"]
    folder = CellFolder(run.path, cell)
    os.makedirs(folder.address, exist_ok=True)
    lock = wait_lock(folder.caretaker_lock, _LOCK_WAIT_S)
    if lock is None:
        return _say("%s is still held by another node: %s" % (cell, folder.caretaker_lock), EX_TEMPFAIL)
    keep_share(folder, plan)
    caretaker = TaskCaretaker(folder, plan, environ, order)
    resume_by = "submission %d" % order.number if order.by_person and not caretaker.restarts else ""
    caretaker.open(dict(sign(lock), lent=lent(environ)), "sbatch", resume_by)
    if not caretaker.run.terminal:  # else a wall that was submitted in advance and is not needed
        begin_cell(run, cell)
        prepare_cell(folder, plan, cell)
    caretaker.tenure = HeldLock(folder.caretaker_lock, lock)
    try:
        caretaker.live()
    except Superseded:
        return _say("%s was deleted, and another task cares for %s now" % (folder.caretaker_lock, cell), EX_TEMPFAIL)
    if caretaker.run.terminal:
        end_cell(run, cell, caretaker.watcher if os.path.exists(run.notify) else None)
        return 1 if caretaker.run.state == FAILED else 0
    from .requeue import go_on  # subprocess takes longer than many a cell

    return go_on(run, order.number, cell, environ)


class TaskCaretaker(Caretaker):
    """A caretaker whose node is lent to it until a wall."""

    keeps = OwnAttempts
    follow = _FOLLOW

    def __init__(self, folder: CellFolder, plan: Dict[str, Any], environ: Mapping[str, str], order: Order) -> None:
        self.born_s = time.monotonic()
        self._long = False
        super().__init__(folder, plan)
        self.cell = folder.only
        self.restarts = int(environ.get("SLURM_RESTART_COUNT") or 0)
        self.leave_by: Optional[float] = None  # monotonic
        self.chain.at_once_bytes = _AT_ONCE_BYTES
        self.lead_s = order.lead_s
        self.wall_by = time.monotonic() + order.wall_s if order.wall_s else None
        self.follows = bool(self.restarts) or not order.by_person

    def join(self, part: str, made: Any) -> None:
        """Configure a part for a task: it reports its own cell alone, and waits in the queue if at all."""
        super().join(part, made)
        if part == "watcher":
            made.tells = is_of_cell
        elif part == "recovery":
            made.left_s = lambda: 0.0

    def open(self, who: Dict[str, Any], detach: str, resume_by: str) -> None:
        """Take over; an attempt that the cluster took away with its node ended because of that."""
        super().open(who, detach, resume_by if self.run.state in (FAILED, STOPPED) else "")
        cell = self.run.cells.get(self.cell)
        if cell is not None and cell.wait_s:
            self.recovery.at_once(self.cell)  # the queue was pause enough
        cut = cell is not None and cell.state in ("starting", "running") and cell.preempted != cell.attempt
        if self.follows and cut and cell is not None:  # reported afterwards: this node stays
            self.note("preempt_noticed", cell=self.cell, attempt=cell.attempt, by="Slurm, afterwards", grace_s=0.0)

    def settled(self) -> bool:
        """Return whether the cell has lived for a second: shorter ones leave only a journal, exit record, results."""
        if not self._long and time.monotonic() - self.born_s > _SETTLED_AFTER_S:
            self._long = True
            gc.enable()
        return self._long

    def _begin(self, name: str, cell: CellState) -> None:
        """Start the stage that the cell is due for, if this node can read the secrets that the job names."""
        missing = _unread_secrets(self.folder, self.plan)
        if missing:
            self.note("cell_failed", cell=name, attempt=cell.attempt, why=missing)
            return
        super()._begin(name, cell)

    def leaves(self) -> bool:
        """Leave for the queue once the trainer has exited, or when the wall is too near to wait for it."""
        cell = self.run.cells.get(self.cell)
        if cell is None or not cell.attempt or cell.preempted != cell.attempt or self.run.state != "running":
            return False
        if cell.state == "pending":
            return self.leave_by is not None  # announced in this life: a requeued task continues instead
        if self.leave_by is None and cell.state in ("starting", "running") and self.attempts.keepers:
            self.leave_by = time.monotonic() + max(5.0, self.lead_s - _BEFORE_THE_WALL_S)
        return self.leave_by is not None and time.monotonic() > self.leave_by

    def _turn(self) -> None:
        if self.signals.terminate:
            self.signals.terminate = False
            left_s = None if self.wall_by is None else self.wall_by - time.monotonic()
            near = left_s is not None and left_s < self.lead_s + _TOO_SOON_S
            self.preemption.notice(self.run, "Slurm, since its wall time is nearly up" if near else "Slurm")
        super()._turn()


def _unread_secrets(folder: RunFolder, plan: Mapping[str, Any]) -> str:
    """Format which secrets of the job this node cannot read; a trainer without its token fails late or silently."""
    wanted = plan["job"].get("secrets") or ()
    if not wanted:
        return ""
    try:
        known = read_json(folder.secrets) or {}
    except OSError:
        known = {}
    missing = [name for name in wanted if name not in known]
    if not missing:
        return ""
    return "%s: node %s cannot read %s; name a private folder that nodes see as environment.credentials" % (
        ", ".join(missing), os.uname().nodename, folder.secrets,
    )  # fmt: skip


def _say(text: str, code: int) -> int:
    sys.stderr.write("leasehold: %s\n" % text)
    return code
