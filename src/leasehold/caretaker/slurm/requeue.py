"""Continue a cell whose task's time is up: requeue the task or, where the site forbids that, hand the cell on.

Handing on submits the rest of the cell as a job of its own, from the node, to begin when this task has ended. It is
recorded first and looked for by its tag, under the run's start lock, as every submission is.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from typing import Callable, Mapping, Optional, TypeVar

from leasehold.caretaker.process.locks import wait_lock
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.slurm_queue.commands import SlurmDown, SlurmRefused, ask
from leasehold.caretaker.slurm_queue.states import put_back_for
from leasehold.caretaker.slurm_queue.submit import TASK, Order, Submission, carry_out, submissions, submit, write
from leasehold.caretaker.slurm_queue.uses_slurm import EX_TEMPFAIL

T = TypeVar("T")

_TRIES = 5
_LOCK_WAIT_S = 60.0
MOST_HANDINGS = 200  # of one cell; one that leaves no newer work is given up long before


def go_on(run: RunFolder, number: int, cell: str, environ: Mapping[str, str]) -> int:
    """Make sure that the cell continues after this task; return the exit code for Slurm, which shows if it will."""
    # Never SLURM_JOB_ID: one element of an array carries the id of them all.
    name = "%s_%s" % (environ.get("SLURM_ARRAY_JOB_ID", ""), environ.get("SLURM_ARRAY_TASK_ID", ""))
    try:
        if _patiently(lambda: _is_cancelled(run, name)):
            _say("somebody cancelled it: it is not requeued")
            return 0
        _patiently(lambda: ask(["scontrol", "requeue", name]))
    except SlurmRefused as error:
        if "pending" in str(error):
            return 0  # Slurm has requeued it by itself
        _say("Slurm does not requeue it: %s" % error)
    except SlurmDown:
        return EX_TEMPFAIL
    else:
        time.sleep(60.0)  # Slurm ends us
        return 0
    try:
        done = _patiently(lambda: _hand_on(run, number, cell, "afterany:" + name))
    except (SlurmRefused, SlurmDown) as error:
        _say("could not be handed on either: %s; the same lease run continues it, or set slurm.chain" % error)
        return EX_TEMPFAIL
    if done is not None:
        _say("handed on to job %s, which begins when this one has ended" % done.job)
    return EX_TEMPFAIL if done is None else 0


def _is_cancelled(run: RunFolder, name: str) -> bool:
    """Return whether a person cancelled the task: it is completing, not for its time, and not for a preempting job."""
    facts = dict(word.partition("=")[::2] for word in ask(["scontrol", "-o", "show", "job", name]).split())
    ending = facts.get("JobState") in ("COMPLETING", "CANCELLED") and facts.get("Reason") != "TimeLimit"
    job, _, place = name.partition("_")
    return ending and not put_back_for(run, job, int(place))


def _hand_on(run: RunFolder, number: int, cell: str, after: str) -> Optional[Submission]:
    lock = wait_lock(run.start_lock, _LOCK_WAIT_S)
    if lock is None:
        raise SlurmDown("another command has been starting this run for 60 s")
    try:
        if os.path.exists(run.stop):
            return None  # a stop was requested
        known = submissions(run)
        mine = next(one for one in known if one.number == number)
        newer = [one for one in known if one.number > number and cell in one.cells and not one.withdrawn]
        if newer:  # submitted in advance, or meant by an interrupted life of ours
            return newer[0] if newer[0].job else carry_out(run, newer[0])
        if sum(one.by == TASK and cell in one.cells for one in known) >= MOST_HANDINGS:
            raise SlurmRefused("it was handed on %d times" % MOST_HANDINGS)
        done = submit(run, Order([cell], mine.wishes, after, TASK))
        _take_along(run, mine, done.job)
        return done
    finally:
        os.close(lock)


def _take_along(run: RunFolder, mine: Submission, onward: str) -> None:
    """Redirect dependencies of our runs on this job to its successor; keep both where the job has other cells too."""
    whole = re.compile(r"(?<![\d_])%s(?![\d_])" % mine.job)
    active = os.path.dirname(run.path)
    for name in sorted(os.listdir(active)):
        other = RunFolder(os.path.join(active, name))
        for one in submissions(other) if name != run.run else []:
            if not one.job or not whole.search(one.after):
                continue
            alone = len(mine.cells) == 1
            after = whole.sub(onward, one.after) if alone else one.after + ",afterok:" + onward
            with contextlib.suppress(SlurmRefused):  # it does not wait any more
                ask(["scontrol", "update", "JobId=" + one.job, "Dependency=" + after])
                write(other, one._replace(after=after))


def _patiently(act: Callable[[], T]) -> T:
    """Retry while the controller does not answer."""
    for number in range(_TRIES):
        try:
            return act()
        except SlurmDown as error:
            _say("the controller does not answer: %s" % error)
            if number == _TRIES - 1:
                raise
            time.sleep(2.0 * (number + 1))
    raise AssertionError("the last try returns or raises")


def _say(text: str) -> None:
    sys.stderr.write("leasehold: %s\n" % text)
