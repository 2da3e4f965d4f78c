"""Observe runs: their journals, checked against locks and processes. The most frequent request, so imports are few."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional, Tuple, cast

from leasehold.caretaker.process.locks import is_held
from leasehold.caretaker.run import ownership
from leasehold.caretaker.run.damaged_journal import retell
from leasehold.caretaker.run.handbook import place_of
from leasehold.caretaker.run.request_args import folder_of
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.soundness import problem_of, refuse_newer
from leasehold.caretaker.slurm_queue.uses_slurm import is_slurm
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.files import journal
from leasehold.kit.files.atomic import read_json
from leasehold.kit.files.file_layouts import JOURNAL, words
from leasehold.kit.files.paths import NAME
from leasehold.kit.run.processes import boot_id, is_alive
from leasehold.kit.run.run_state import RunState
from leasehold.kit.run.run_states import FAILED, FINISHED

if TYPE_CHECKING:
    from leasehold.caretaker.slurm_queue.gather import Gatherer
    from leasehold.kit.wire.messages import RunSeen

# Errors from files of ours with foreign content.
_UNREADABLE = (Refused, OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)


def look(request: Request) -> None:
    """Answer a run's state from its journal, checked against locks and processes."""
    request.reply(observe(folder_of(request)))


_PARTS = ("plan.json", "journal.jsonl", "out", "cells")  # identifies a folder as a run's, whatever its name


def runs(request: Request) -> None:
    """List the runs this box knows, and with their `problem` those that cannot be read."""
    for run in listed(request.root):
        request.reply(run)


def listed(root: str) -> Iterator[RunSeen]:
    """Observe every run below a root; one that cannot be read is listed with its `problem`, and hides no other."""
    folder = os.path.join(root, "active")
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        names = []
    for name in names:
        try:
            problem = _problem(os.path.join(folder, name), name)
            planned = NAME.match(name) and os.path.exists(os.path.join(folder, name, "plan.json"))
            seen = observe(RunFolder.below(root, name)) if planned and not problem else None
        except _UNREADABLE as error:
            seen, problem = None, "%s: %s" % (type(error).__name__, error)
        if problem:
            yield {"run": name, "problem": problem, "state": "unknown", "terminal": False}
        elif seen is not None:
            yield seen


def _problem(path: str, name: str) -> str:
    """Return why what lies there cannot be judged; .ipynb_checkpoints and the like are no runs of ours."""
    if NAME.match(name):
        return problem_of(RunFolder(path))
    ours = any(os.path.lexists(os.path.join(path, part)) for part in _PARTS)
    return "its name is not a run's name" if ours else ""


def observe(folder: RunFolder) -> RunSeen:
    """Fold the journal and check it against locks and processes."""
    cluster = gatherer_of(folder)
    cared = cluster is None and is_held(folder.caretaker_lock)  # read first: a caretaker may end its run meanwhile
    status = read_json(folder.status) or {}  # before the journal, which is then at least as new
    run, offset, journal_words, unproven = _folded(folder, cluster, status)
    if cluster is not None:
        status = read_json(folder.status) or {}  # gathering wrote it anew
    seen = run.as_dict()
    for name, cell in seen["cells"].items():
        here = cluster is None or cell["state"] not in (FINISHED, FAILED)  # a cluster has thousands of finished ones
        cell["alive"] = here and bool(cell["pid"]) and is_alive(cell["pid"], cell["started"])
        cell["held"] = here and is_held(folder.cell_lock(name), fresh=False)
    alive = cared or is_held(folder.caretaker_lock) if cluster is None else cluster.alive and not run.terminal
    seen.update(
        run=folder.run,
        folder=folder.path,
        offset=offset,
        terminal=run.terminal,
        caretaker_alive=alive,
        cluster_problem="" if cluster is None else cluster.problem,
        heartbeat_unix=status.get("heartbeat_unix"),
        proof_age_s=None if run.terminal or cluster is not None else proof_age_s(status),
        work=status.get("work"),
        standing=status.get("standing"),
        health=status.get("health"),
        now_unix=time.time(),
        boot=boot_id(),
        holder=ownership.read(folder),
        journal=journal_words,
        unproven=unproven,
        place=place_of(folder),
        notifies=os.path.exists(folder.notify),
        fence=read_json(folder.fence) or {},
        progress=(status.get("readings") or {}).get("progress"),
    )
    return cast("RunSeen", seen)


def proof_age_s(status: Dict[str, Any]) -> Optional[float]:
    """Return how long ago the caretaker last gave a sign of life; None where it never did."""
    beat = status.get("heartbeat_unix")
    return round(max(0.0, time.time() - beat), 3) if isinstance(beat, (int, float)) else None


def state_of(folder: RunFolder) -> RunSeen:
    """Observe a run for clean-up; one that this version cannot read is unknown, and not over."""
    try:
        return observe(folder)
    except Refused:
        return {"run": folder.run, "state": "unknown", "terminal": False, "caretaker_alive": False, "cells": {}}


def _folded(
    folder: RunFolder, cluster: "Optional[Gatherer]", status: Dict[str, Any]
) -> Tuple[RunState, int, str, bool]:
    """Fold the run's journal, gathered first where a cluster cares for its cells.

    Return its state and the journal's end; which part of it cannot be read, in words; whether the state is unproven.
    """
    if cluster is not None:
        return cluster.gather(), cluster.offset, "", False
    found = journal.scan(folder.journal)
    if any(event.get("layout", JOURNAL) != JOURNAL for event in found.events):
        raise Refused("layout.newer", words("the journal of %s" % folder.run, "newer", JOURNAL))
    told = retell(found, status, begun=os.path.isdir(os.path.join(folder.path, "cells")))
    return told.run, found.offset, told.words, told.unproven


def gatherer_of(folder: RunFolder) -> "Optional[Gatherer]":
    """Return the gatherer of a run whose cells a cluster cares for; None where one caretaker has them all."""
    refuse_newer(folder)
    plan = read_json(folder.plan)
    if plan is None or not is_slurm(plan):
        return None
    from leasehold.caretaker.slurm_queue.gather import Gatherer  # most boxes are no cluster, and it brings much

    return Gatherer(folder)
