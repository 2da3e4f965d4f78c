"""Start, resume and stop a run through Slurm, from a login node; no process of ours stays there."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any, Dict, List, Tuple

from leasehold.caretaker.process.locks import wait_lock
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.slurm_queue.commands import SlurmDown, SlurmRefused, ask
from leasehold.caretaker.slurm_queue.gather import Gatherer, cancel
from leasehold.caretaker.slurm_queue.submit import CHAIN, Order, Submission, carry_out, submissions, submit, write
from leasehold.caretaker.slurm_queue.submit import rehearse as submit_rehearsal
from leasehold.caretaker.slurm_queue.uses_slurm import is_slurm as is_slurm
from leasehold.caretaker.supervisor.card_slots import left_alone
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.files import journal
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.run.processes import boot_id
from leasehold.kit.run.run_state import RunState, fold
from leasehold.kit.run.run_states import FAILED, FINISHED

from .end_notice import expect_cells

_LOCK_WAIT_S = 60.0
_DEFAULT_ARRAY = 1000  # MaxArraySize is 1001 unless the site says otherwise
_NEVER = "DependencyNeverSatisfied"


def keep_wishes(folder: RunFolder, plan: Dict[str, Any]) -> None:
    """Record what the holder asks of Slurm now: a run may need more memory than its plan says."""
    if is_slurm(plan) and plan.get("slurm") != wishes_of(folder, {}):
        os.makedirs(os.path.join(folder.path, "slurm"), exist_ok=True)
        write_json(_wishes_path(folder), plan.get("slurm") or {})


def wishes_of(folder: RunFolder, plan: Dict[str, Any]) -> Dict[str, Any]:
    """Read what was last asked of Slurm."""
    return read_json(_wishes_path(folder)) or plan.get("slurm") or {}


def begin(folder: RunFolder, plan: Dict[str, Any], resume_by: str = "") -> None:
    """Submit every cell that is not done and that Slurm does not have; the caller holds the start lock."""
    with _refusals():
        _finish_submissions(folder, wishes_of(folder, plan))
        gatherer = Gatherer(folder)
        run = gatherer.gather()
        if gatherer.problem:
            raise SlurmDown(gatherer.problem)
        with _Book(folder) as book:
            run = fold(_opening(run, plan, (resume_by, left_alone(folder)), book), into=run)
        wanted = _homeless(folder, run, gatherer)
        if wanted:
            expect_cells(folder, len(run.cells))
            _submit_all(folder, wishes_of(folder, plan), wanted)


def mend(folder: RunFolder, plan: Dict[str, Any]) -> None:
    """Update waiting jobs to the options asked for now; the caller holds the start lock. Running ones stay as is."""
    with _refusals():
        known = [one for one in submissions(folder) if one.job and not one.withdrawn]
        if not known:
            return
        gatherer = Gatherer(folder)
        run = gatherer.gather()
        if run.terminal or run.state == "stopping" or gatherer.problem:
            return
        wishes = wishes_of(folder, plan)
        waiting = {task.job: task.reason for task in gatherer.queue.values() if task.state == "PENDING"}
        old = [one for one in known if one.job in waiting and _is_other(one.wishes, wishes)]
        for one in old:
            write(folder, one._replace(withdrawn=True))
            cancel(one, "PENDING")
        for one in known:
            if waiting.get(one.job) == _NEVER and one not in old:
                _wait_for(one, wishes, folder)
        if old:
            begin(folder, plan)


def stop(folder: RunFolder, wish: Dict[str, Any]) -> None:
    """Take what waits out of the queue; running tasks read the stop request themselves and end in order."""
    with _refusals():
        with _Book(folder) as book:
            asked = {"by": wish.get("by", ""), "grace_s": wish.get("grace_s", 30)}
            book.append("stop_requested", id=wish.get("id"), **asked)
        for one in submissions(folder):
            if one.job:
                cancel(one, "PENDING")


def rehearse(request: Request) -> None:
    """Report whether Slurm would accept a job with these options."""
    with _refusals():
        request.reply(submit_rehearsal(request.root, dict(request.args.get("slurm") or {})))


def _wishes_path(folder: RunFolder) -> str:
    return os.path.join(folder.path, "slurm", "wishes.json")


def _is_other(before: Dict[str, Any], now: Dict[str, Any]) -> bool:
    """Return whether the options differ; cards were chosen by name on the user's behalf, and an old record has none."""
    chosen = ("gres", "constraint") if now.get("gpu_name") else ()
    keys = (before.keys() | now.keys()) - set(chosen)
    return bool(before) and any(before.get(key) != now.get(key) for key in keys)


def _submit_all(folder: RunFolder, wishes: Dict[str, Any], cells: List[str]) -> None:
    """Submit the cells, and as many successive walls in advance as the job asks for."""
    from leasehold.caretaker.slurm_queue.site_resources import settle

    from .dependencies import dependency

    settled, after = settle(wishes), dependency(folder, wishes)
    for some in _arrays(cells):
        done = submit(folder, Order(some, settled, after))
        _say_submitted(folder, done)
        for _ in range(int(wishes.get("chain") or 1) - 1):
            done = submit(folder, Order(some, settled, "afterany:" + done.job, CHAIN))
            _say_submitted(folder, done)


def _wait_for(one: Submission, wishes: Dict[str, Any], folder: RunFolder) -> None:
    """Make a job wait for its current dependencies, instead of for one that failed."""
    from .dependencies import dependency

    if one.by == CHAIN:
        return
    ask(["scontrol", "update", "JobId=" + one.job, "Dependency=" + dependency(folder, wishes)])


def _finish_submissions(folder: RunFolder, wishes: Dict[str, Any]) -> None:
    """Complete what an interrupted start meant to submit."""
    for one in submissions(folder):
        if not one.job:
            _say_submitted(folder, carry_out(folder, one._replace(wishes=one.wishes or wishes)))


def _opening(
    run: RunState, plan: Dict[str, Any], resumed: Tuple[str, Dict[str, Any]], book: journal.Journal
) -> List[Dict[str, Any]]:
    if run.seq == 0:
        facts = {"plan_sha256": plan["plan_sha256"], "cells": list(plan["cells"]), "detach": "sbatch"}
        return [book.append("run_opened", pid=os.getpid(), boot=boot_id(), **facts)]
    new = [name for name in plan["cells"] if name not in run.cells]
    events = [book.append("cells_added", cells=new)] if new else []
    by, but = resumed
    if by:
        events.append(book.append("resumed", by=by, detach="sbatch", **but))
    return events


def _homeless(folder: RunFolder, run: RunState, gatherer: Gatherer) -> List[str]:
    """List the cells that are not done and that no task in the queue will do."""
    if run.terminal:
        return []
    unended = [name for name, cell in run.cells.items() if cell.state not in (FINISHED, FAILED)]
    given = {cell for one in submissions(folder) for cell in one.cells}
    held = {name for name, task in gatherer.queue.items() if task.in_queue}
    done = {name for name, task in gatherer.queue.items() if task.state == "COMPLETED" and run.cells[name].attempt == 0}
    return [name for name in unended if name not in held and (name not in given or name not in done)]


def _arrays(cells: List[str]) -> List[List[str]]:
    if len(cells) <= _DEFAULT_ARRAY:
        return [cells] if cells else []
    found = re.search(r"MaxArraySize\s*=\s*(\d+)", ask(["scontrol", "show", "config"]))
    most = max(1, int(found.group(1)) - 1) if found else _DEFAULT_ARRAY
    return [cells[start : start + most] for start in range(0, len(cells), most)]


def _say_submitted(folder: RunFolder, done: Submission) -> None:
    with _Book(folder) as book:
        if not any(event["k"] == "submitted" and event.get("job") == done.job for event in book.events):
            after = {"after": done.after} if done.after else {}
            book.append("submitted", job=done.job, number=done.number, count=len(done.cells), **after)


class _Book:
    """The run's journal, while no gatherer writes to it."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    def __enter__(self) -> journal.Journal:
        lock = wait_lock(os.path.join(self._folder.path, "gather.lock"), _LOCK_WAIT_S)
        if lock is None:
            raise Refused("run.busy", "another command has been gathering %s for 60 s" % self._folder.run)
        self._lock = lock
        self._book = journal.Journal(self._folder.journal)
        return self._book

    def __exit__(self, *_: object) -> None:
        self._book.close()
        os.close(self._lock)


@contextlib.contextmanager
def _refusals() -> Any:
    try:
        yield
    except SlurmDown as error:
        raise Refused("slurm.down", "Slurm does not answer: %s" % error) from None
    except SlurmRefused as error:
        raise Refused("slurm.refused", "Slurm refused: %s" % error) from None
