"""What a task of the array runs: the caretaker of one cell, in the place of the batch script.

Told that its time is nearly up (`--signal=B:TERM@lead`), it has the trainer save and leave, and puts the task back into
the queue: Slurm starts the same task again, and the cell's journal says where to go on.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from typing import Any, Dict, Mapping, Optional

from leasehold.caretaker.cell_work import prepare_cell
from leasehold.caretaker.keeper import Becoming
from leasehold.caretaker.layout import CellFolder, RunFolder
from leasehold.caretaker.locks import wait_lock
from leasehold.caretaker.signing import sign
from leasehold.caretaker.supervise import Caretaker
from leasehold.kit.runstate import FAILED, STOPPED

from .own import OwnAttempts
from .script import lead_s
from .shares import keep_share, share_of

_LOCK_WAIT_S = 120.0  # a node that failed may hold the cell for a while; Slurm has fenced it by then
_BEFORE_THE_WALL_S = 20.0  # a trainer that does not leave is put back with the task, not lost with it
_REQUEUE_TRIES = 5
_SETTLED_AFTER_S = 1.0
_AT_ONCE_BYTES = 4 << 20  # hashed in milliseconds
# What only retells a record that lies beside the journal, or can be found again by doing it again, is durable with
# the next event: a node that dies in between is followed by one that tells it anew.
_FOLLOW = frozenset(("attempt_started", "attempt_ended", "stage_passed", "cell_sealed", "cell_finished"))
EX_TEMPFAIL = 75


def task(run: RunFolder, number: int, environ: Mapping[str, str]) -> int:
    """Care for the cell that this task was given; its exit code is for Slurm's books only."""
    Becoming.fresh = False
    plan = share_of(run, number, int(environ.get("SLURM_ARRAY_TASK_ID", "0")))
    if plan is None:
        return _say("submission %d of %s has no such task" % (number, run.path), 64)
    (cell,) = plan["cells"]
    folder = CellFolder(run.path, cell)
    os.makedirs(folder.address, exist_ok=True)
    lock = wait_lock(folder.caretaker_lock, _LOCK_WAIT_S)
    if lock is None:
        return _say("%s is still held by another node: %s" % (cell, folder.caretaker_lock), EX_TEMPFAIL)
    keep_share(folder, plan)
    prepare_cell(folder, plan, cell)
    caretaker = TaskCaretaker(folder, plan, environ)
    caretaker.open(sign(lock), "sbatch", "submission %d" % number)
    caretaker.live()
    if caretaker.run.terminal:
        return 1 if caretaker.run.state == FAILED else 0
    return _put_back(environ)


class TaskCaretaker(Caretaker):
    """A caretaker that knows that its node is lent to it until a wall."""

    keeps = OwnAttempts
    follow = _FOLLOW

    def __init__(self, folder: CellFolder, plan: Dict[str, Any], environ: Mapping[str, str]) -> None:
        self.born_s = time.monotonic()
        self._long = False
        super().__init__(folder, plan)
        self.cell = folder.only
        self.restarts = int(environ.get("SLURM_RESTART_COUNT") or 0)
        self.leave_by: Optional[float] = None  # monotonic
        self.chain.at_once_bytes = _AT_ONCE_BYTES
        self.lead_s = float(lead_s(plan.get("slurm") or {}))

    def open(self, who: Dict[str, Any], detach: str, resume_by: str) -> None:
        """Take over; an attempt that the cluster took away with its node ended because of that."""
        super().open(who, detach, resume_by if self.run.state in (FAILED, STOPPED) else "")
        cell = self.run.cells.get(self.cell)
        if cell is not None and cell.wait_s:
            self.recovery.at_once(self.cell)  # the queue was pause enough
        cut = cell is not None and cell.state in ("starting", "running") and cell.preempted != cell.attempt
        if self.restarts and cut and cell is not None:  # told afterwards: this node is here to stay
            self.note("preempt_noticed", cell=self.cell, attempt=cell.attempt, by="Slurm, afterwards", grace_s=0.0)

    def settled(self) -> bool:
        """Whether the cell has lived for a second: what ends sooner leaves a journal, exit record and results alone."""
        if not self._long and time.monotonic() - self.born_s > _SETTLED_AFTER_S:
            self._long = True
            gc.enable()
        return self._long

    def leaves(self) -> bool:
        """Leave for the queue once the trainer has left, or when the wall is too near to wait for it."""
        cell = self.run.cells.get(self.cell)
        if cell is None or not cell.attempt or cell.preempted != cell.attempt or self.run.state != "running":
            return False
        if cell.state == "pending":
            return self.leave_by is not None  # told in this life: a task that was put back goes on instead
        if self.leave_by is None and cell.state in ("starting", "running") and self.attempts.keepers:
            self.leave_by = time.monotonic() + max(5.0, self.lead_s - _BEFORE_THE_WALL_S)
        return self.leave_by is not None and time.monotonic() > self.leave_by


def _put_back(environ: Mapping[str, str]) -> int:
    """Have Slurm start this very task again; where it may not, the next look submits the cell anew."""
    from .tools import SlurmDown, SlurmRefused, ask  # subprocess takes longer than many a cell

    # Never SLURM_JOB_ID: one element of an array carries the id of them all.
    name = "%s_%s" % (environ.get("SLURM_ARRAY_JOB_ID", ""), environ.get("SLURM_ARRAY_TASK_ID", ""))
    for number in range(_REQUEUE_TRIES):
        try:
            ask(["scontrol", "requeue", name])
        except SlurmRefused as error:
            if "pending" in str(error):
                return 0  # Slurm has put it back by itself
            return _say("could not be put back into the queue: %s" % error, EX_TEMPFAIL)
        except SlurmDown as error:
            _say("the controller does not answer: %s" % error, 0)
            time.sleep(2.0 * (number + 1))
            continue
        time.sleep(60.0)  # Slurm ends us
        return 0
    return EX_TEMPFAIL


def _say(text: str, code: int) -> int:
    sys.stderr.write("leasehold: %s\n" % text)
    return code
