"""Gather one record of a run whose cells have their own caretakers: their journals and Slurm's reports, in one journal.

Every observer gathers, one at a time under a lock. Each gathered event carries its origin (cell, number), so that
the successor of a gatherer killed in the middle continues where it stopped.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Dict, Iterable, List, Optional, Tuple

from leasehold.caretaker.process.locks import wait_lock
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.work_clock import stretches, trained_s
from leasehold.kit.files import journal
from leasehold.kit.files.atomic import write_json
from leasehold.kit.files.file_layouts import STATUS
from leasehold.kit.run.run_state import CellState, RunState, fold
from leasehold.kit.run.run_states import FAILED, FINISHED

from . import allocation
from .accounting import look_back
from .commands import SlurmDown, SlurmRefused, ask
from .explain import GONE, Ended, say_ended, say_waiting
from .states import LIVE, Task, put_back_for, tasks
from .submit import HOME, Submission, submissions
from .uses_slurm import EX_TEMPFAIL

_LOCK_WAIT_S = 20.0
_ASK_EVERY_S = 2.0
_WORKING = ("starting", "running")
_GOES_ON = ("TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "REVOKED", "COMPLETED", GONE)  # nobody's fault
_OWN_KINDS = ("run_", "caretaker_", "stop_", "resumed", "tensorboard_", "budget_")


class Gatherer:
    """Folds what is new; kept by a follower of the run, made anew for a single look."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.queue: Dict[str, Task] = {}
        self.problem = ""  # why Slurm could not be asked
        self.offset = 0  # end of the run's journal when it was last gathered
        self._asked_at = 0.0

    def gather(self) -> RunState:
        """Bring the run's journal up to date and return its state."""
        lock = wait_lock(os.path.join(self.folder.path, "gather.lock"), _LOCK_WAIT_S)
        if lock is None:  # another process gathers: what it wrote is as true
            events, self.offset = journal.read_from(self.folder.journal, 0)
            return fold(events)
        try:
            return self._gather()
        finally:
            os.close(lock)

    @property
    def alive(self) -> bool:
        """Return whether Slurm will still do something for this run; unknown counts as yes."""
        return bool(self.problem) or any(task.in_queue for task in self.queue.values())

    def _gather(self) -> RunState:
        book = journal.Journal(self.folder.journal)
        try:
            run = fold(book.events)
            if run.terminal or run.seq == 0:
                return run
            self._ask(submissions(self.folder), _open(run))
            told = _told(book.events)
            new = [event for name in _open(run) for event in self._from_cell(name, told.get(name, 0))]
            fold(book.extend(new), into=run)
            fold(book.extend(self._from_queue(run, book.events)), into=run)
            fold(book.extend(self._closing(run)), into=run)
            self._beat(run, book.events)
            return run
        finally:
            self.offset = book.size_bytes
            book.close()

    def _ask(self, known: List[Submission], wanted: List[str]) -> None:
        if time.monotonic() - self._asked_at < _ASK_EVERY_S:
            return
        try:
            self.queue, self.problem = tasks(self.folder, known, wanted), ""
        except (SlurmDown, SlurmRefused) as error:
            self.problem = str(error)
        self._asked_at = time.monotonic()

    def _from_cell(self, name: str, told: int) -> List[Dict[str, Any]]:
        events, _ = journal.read_from(os.path.join(self.folder.cell(name), "journal.jsonl"), 0)
        new = []
        for event in events:
            if event["n"] <= told:
                continue
            kept = {key: value for key, value in event.items() if key not in ("n", "t")}
            if event["k"] == "run_failed" and not any(one["k"] == "cell_failed" for one in events):
                kept.update(k="cell_failed", cell=name, attempt=0, why=event.get("reason", ""))
            elif "lent" in event:  # a caretaker that took over in a task: its allocation is news for the run
                kept = dict(event["lent"], k=allocation.LENT)
            elif event["k"].startswith(_OWN_KINDS):
                continue
            new.append(dict(kept, cell=name, at=event.get("at", event["t"]), origin=[name, event["n"]]))
        return new

    def _from_queue(self, run: RunState, events: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
        """Build events for what only Slurm knows: why cells wait, how unrecorded ones ended. Equal ones share one."""
        if self.problem:
            return []
        said = _last_word(events)
        alike: Dict[Tuple[str, str, str], List[Task]] = {}
        ended: List[Task] = []
        for name in _open(run):
            task = self.queue.get(name)
            if task is None or said.get(name) == (task.name, *_word(task)):
                continue
            if task.in_queue:
                why = "" if task.state in LIVE else self._why_waiting(task)
                alike.setdefault((*_word(task), why), []).append(task)
            elif run.state != "stopping" and (task.state != "COMPLETED" or run.cells[name].state in _WORKING):
                ended.append(task)
        lost: List[Dict[str, Any]] = []
        how = look_back(self.folder, ended)
        for task in ended:
            alike.setdefault((*_word(task), say_ended(how[task.cell])), []).append(task)
            lost += _lost(task.cell, run.cells[task.cell], how[task.cell])
        return [_seen(word, found) for word, found in alike.items()] + lost

    def _why_waiting(self, task: Task) -> str:
        """Format why a task waits; of a requeued one, also what ended it."""
        ended = put_back_for(self.folder, task.job, task.place) if task.reason == "BeginTime" else ""
        return "%s%s" % (say_ended(Ended(ended)) + "; " if ended else "", say_waiting(task.reason))

    def _closing(self, run: RunState) -> List[Dict[str, Any]]:
        """End the run when nothing of it is left to do; a stopped one when no task of it lives."""
        states = {name: cell.state for name, cell in run.cells.items()}
        if any(state not in (FINISHED, FAILED) for state in states.values()):
            stopped = run.state == "stopping" and not self.alive
            return [{"k": "run_stopped", "reason": "stopped on request"}] if stopped else []
        for one in submissions(self.folder):  # walls that were submitted in advance and are not needed
            if one.job and one.by != HOME and not self.problem:
                cancel(one, "PENDING")
        self.folder.forget_secrets()
        failed = [name for name, state in states.items() if state == FAILED]
        if not failed:
            return [{"k": "run_finished"}]
        shown = "; ".join("%s: %s" % (name, run.cells[name].why) for name in failed[:20])
        return [{"k": "run_failed", "reason": "%d of %d cells failed: %s" % (len(failed), len(states), shown)}]

    def _beat(self, run: RunState, events: List[Dict[str, Any]]) -> None:
        value = run.as_dict()
        spans = stretches(events)
        now = time.time()
        trained = sum(trained_s(spans.get(name, []), now) for name in run.cells)
        live = {name: task.name for name, task in self.queue.items() if task.state in LIVE}
        lent = allocation.loans(events, live)
        value["work"] = {
            "training": run.state in ("running", "stopping"),
            "trained_s": round(trained, 1),
            **allocation.used(lent, now),
        }
        value["standing"] = "" if run.terminal else say_standing(run, allocation.say_now(lent), self.problem)
        value.update(schema=STATUS, run=self.folder.run, heartbeat_unix=round(now, 3), engine="slurm")
        with contextlib.suppress(OSError):
            write_json(self.folder.status, value, durable=False)


def cancel(one: Submission, state: str = "") -> None:
    """Cancel tasks of an array that we submitted ourselves; no other job is ever named."""
    with contextlib.suppress(SlurmRefused):  # it has ended meanwhile
        ask(["scancel", *(["--state=" + state] if state else []), one.job])


def say_standing(run: RunState, lent: str, problem: str) -> str:
    """Format in a line how many cells run and where, and why the others wait."""
    from leasehold.kit.events.cluster_events import in_queue  # the tasks themselves report nothing

    if problem:
        return "Slurm could not be asked: %s" % problem
    states = [cell.state for cell in run.cells.values()]
    running = sum(state in (*_WORKING, "ended") for state in states)
    waiting = [cell.waits for cell in run.cells.values() if cell.state == "pending"]
    of = " of %d cells" % len(states) if len(states) > 1 else ""
    parts = ["%s %s" % ("%d%s run" % (running, of) if of else "it runs", lent)] if running and lent else []
    if waiting:
        why = next((one for one in waiting if one), "Slurm gave no reason yet")
        parts.append(in_queue(len(waiting), len(states), why))
    return "; ".join(part.strip() for part in parts)


def _open(run: RunState) -> List[str]:
    return [name for name, cell in run.cells.items() if cell.state not in (FINISHED, FAILED)]


def _told(events: Iterable[Dict[str, Any]]) -> Dict[str, int]:
    told: Dict[str, int] = {}
    for event in events:
        origin: Optional[List[Any]] = event.get("origin")
        if origin:
            told[origin[0]] = max(told.get(origin[0], 0), origin[1])
    return told


def _last_word(events: Iterable[Dict[str, Any]]) -> Dict[str, Tuple[str, str, str]]:
    found: Dict[str, Tuple[str, str, str]] = {}
    for event in events:
        if event["k"] == "tasks_seen":
            found.update((cell, (task, event["state"], event["reason"])) for cell, task in event["tasks"].items())
    return found


def _word(task: Task) -> Tuple[str, str]:
    return task.state, task.reason if task.state == "PENDING" else ""


def _seen(word: Tuple[str, str, str], found: List[Task]) -> Dict[str, Any]:
    state, reason, why = word
    return {
        "k": "tasks_seen",
        "tasks": {one.cell: one.name for one in found},
        "state": state,
        "reason": reason,
        "why": why,
    }


def _lost(name: str, cell: CellState, ended: Ended) -> List[Dict[str, Any]]:
    """Judge a cell whose task ended without a record of ours: if interrupted, it waits for another, else it failed."""
    new: List[Dict[str, Any]] = []
    if cell.state in _WORKING:
        new.append({"k": "attempt_ended", "cell": name, "attempt": cell.attempt, "lost": True})
    if ended.state in _GOES_ON or ended.code == EX_TEMPFAIL:
        why = "%s; the same lease run starts it again" % say_ended(ended)
        return [*new, {"k": "cell_pending", "cell": name, "why": why}]
    return [*new, {"k": "cell_failed", "cell": name, "attempt": cell.attempt, "why": say_ended(ended)}]
