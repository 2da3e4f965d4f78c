"""Start, resume and stop a run through Slurm, from a login node; nothing of ours stays running there."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any, Dict, List

from leasehold.caretaker.layout import RunFolder
from leasehold.caretaker.locks import wait_lock
from leasehold.caretaker.serve import Refused, Request
from leasehold.kit import journal
from leasehold.kit.procs import boot_id
from leasehold.kit.runstate import FAILED, FINISHED, RunState, fold

from .gather import Gatherer
from .submit import Submission, carry_out, submissions, submit
from .submit import rehearse as submit_rehearsal
from .tools import SlurmDown, SlurmRefused, ask

_LOCK_WAIT_S = 60.0
_DEFAULT_ARRAY = 1000  # MaxArraySize is 1001 unless the site says otherwise


def is_slurm(plan: Dict[str, Any]) -> bool:
    """Whether this run's work goes through Slurm."""
    return plan.get("engine") == "slurm"


def begin(folder: RunFolder, plan: Dict[str, Any], resume_by: str = "") -> None:
    """Submit every cell that is not done and that Slurm does not have; the caller holds the start lock."""
    with _refusals():
        _finish_submissions(folder, plan)
        gatherer = Gatherer(folder)
        run = gatherer.gather()
        if gatherer.problem:
            raise SlurmDown(gatherer.problem)
        with _Book(folder) as book:
            run = fold(_opening(run, plan, resume_by, book), into=run)
        wanted = _homeless(folder, run, gatherer)
        for cells in _arrays(wanted):
            done = submit(folder, plan.get("slurm") or {}, cells)
            _say_submitted(folder, done)


def stop(folder: RunFolder, wish: Dict[str, Any]) -> None:
    """Take what waits out of the queue; what runs reads the wish itself and ends in order."""
    with _refusals():
        with _Book(folder) as book:
            asked = {"by": wish.get("by", ""), "grace_s": wish.get("grace_s", 30)}
            book.append("stop_requested", id=wish.get("id"), **asked)
        for one in submissions(folder):
            if one.job:
                cancel(one, "PENDING")


def rehearse(request: Request) -> None:
    """Say whether Slurm would take a job with these options."""
    with _refusals():
        request.reply(submit_rehearsal(request.root, dict(request.args.get("slurm") or {})))


def cancel(one: Submission, state: str = "") -> None:
    """Cancel tasks of an array that we submitted ourselves; no other job is ever named."""
    with contextlib.suppress(SlurmRefused):  # it has ended meanwhile
        ask(["scancel", *(["--state=" + state] if state else []), one.job])


def _finish_submissions(folder: RunFolder, plan: Dict[str, Any]) -> None:
    """Complete what an earlier start meant to submit when it was cut off."""
    for one in submissions(folder):
        if not one.job:
            _say_submitted(folder, carry_out(folder, plan.get("slurm") or {}, one))


def _opening(run: RunState, plan: Dict[str, Any], resume_by: str, book: journal.Journal) -> List[Dict[str, Any]]:
    if run.seq == 0:
        facts = {"plan_sha256": plan["plan_sha256"], "cells": list(plan["cells"]), "detach": "sbatch"}
        return [book.append("run_opened", pid=os.getpid(), boot=boot_id(), **facts)]
    new = [name for name in plan["cells"] if name not in run.cells]
    events = [book.append("cells_added", cells=new)] if new else []
    if resume_by:
        events.append(book.append("resumed", by=resume_by, detach="sbatch"))
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
            book.append("submitted", job=done.job, number=done.number, count=len(done.cells))


class _Book:
    """The run's journal, for as long as nobody gathers into it."""

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
        raise Refused("slurm.refused", "Slurm said no: %s" % error) from None
