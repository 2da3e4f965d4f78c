"""The caretaker's side: keep the worker at work, journal what it says, end it if it hangs, stop a fenced run."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, Callable, Dict, List, Mapping, Set, Tuple

from leasehold.caretaker.process.child_worker import Worker
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json, read_small, write_json
from leasehold.kit.run.processes import is_alive, look
from leasehold.kit.run.run_state import CellState, RunState
from leasehold.kit.run.run_states import FAILED, FINISHED

from .orders import RefugeFiles

GIVE_UP_S = 600.0  # without a sign of life from the worker
_HEAR_EVERY_S = 0.5
_SKIP_S = 1800.0  # a refuge that hung is left alone for so long
_RESTART_S = (0.0, 5.0, 60.0)
_MOST_FINAL_S = 120.0  # how long a stop waits for the last copy; a copy that still moves was told its time
_HOME = "home"
_NONE = "none"


def wanted(plan: Mapping[str, Any], platform: Mapping[str, Any]) -> bool:
    """Return whether this run's checkpoints have a refuge, or are meant to."""
    said = plan.get("job", {}).get("checkpoint") or {}
    return bool(said.get("path")) and bool(said.get("refuge") or platform.get("durable"))


class Refuge:
    """Keeps one run's checkpoints on their way off the box."""

    def __init__(
        self,
        folder: RunFolder,
        plan: Dict[str, Any],
        note: Callable[..., None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder, self.plan, self.note, self._clock = folder, plan, note, clock
        self.files = RefugeFiles(folder)
        self._worker = Worker(self.files.lock)
        self._order: Dict[str, Any] = {}
        self._known: Set[str] = set()
        self._durable: Any = None
        self._hear_at = self._start_at = float("-inf")
        self._starts = 0
        self._beat: Dict[str, Any] = {}
        self._beat_at = clock()
        self._skip: Dict[str, float] = {}
        self._final_at = 0.0
        self._final_told = False

    def step(self, run: RunState, events: List[Dict[str, Any]], before_exec: Callable[[], None]) -> None:
        """Take the next step of the run's refuge."""
        durable = self.folder.platform().get("durable") or ""
        if durable != self._durable:  # home may name another tier while the run goes on
            self._open(run, events)
            if self._durable is not None:
                self.end()
            self._durable = durable
        if not self._boxed() or self._clock() < self._hear_at:
            return
        self._hear_at = self._clock() + _HEAR_EVERY_S
        self._hear()
        if run.fenced:
            self.end()
            return
        self._tell(run)
        if self._worker.busy():
            self._mind()
        elif self._order.get("cells") and not self._final_at:
            self._start(before_exec)

    def settle(self, run: RunState, before_exec: Callable[[], None]) -> bool:
        """Have the newest states copied at the run's end; return whether that is done, or cannot be waited for."""
        if not self._boxed() or not self._order.get("cells") or run.fenced:
            self.end()
            return True
        if not self._final_at:
            self._final_at = self._clock()
            self._tell(run, final=True)
            if not self._worker.busy():
                self._start(before_exec)
            return False
        if self._worker.busy() and self._clock() - self._final_at < _MOST_FINAL_S:
            self._mind()
            return False
        self.end()
        self._hear()
        return True

    def end(self) -> None:
        """End the worker; what it copied is used again."""
        if not self._worker.busy():
            return
        pid, started = self._identity()
        if pid and is_alive(pid, started):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)

    def _open(self, run: RunState, events: List[Dict[str, Any]]) -> None:
        """Journal once where checkpoints go, and find out what was journaled before us."""
        self._known |= {str(event["uid"]) for event in events if "uid" in event}
        from .opened_place import where_of, wishes_of  # late: most runs have no refuge

        platform = self.folder.platform()
        wishes = wishes_of(self.plan, platform)
        places = [where_of(spec, platform) for spec in wishes.specs]
        facts = {"places": places, "home": _HOME in wishes.named, "every_s": wishes.every_s, "keep": wishes.keep}
        if _NONE not in wishes.named and {key: run.refuge.get(key) for key in facts} != facts:
            self.note("refuge_opened", **facts)

    def _boxed(self) -> bool:
        """Return whether the box itself has a refuge to fill; home copies for itself."""
        said = (self.plan.get("job", {}).get("checkpoint") or {}).get("refuge")
        return bool(set(said) - {_HOME, _NONE}) if said else bool(self.folder.platform().get("durable"))

    def _tell(self, run: RunState, final: bool = False) -> None:
        """Write the order, when it changed."""
        now = self._clock()
        cells = {name: _said_of(cell) for name, cell in run.cells.items() if _matters(cell)}
        skip = sorted(where for where, until in self._skip.items() if now < until)
        order = {"cells": cells, "final": final, "skip": skip, "box": os.uname().nodename}
        if order != self._order:
            os.makedirs(self.files.path, exist_ok=True)
            write_json(self.files.order, order, durable=False)
            self._order = order

    def _start(self, before_exec: Callable[[], None]) -> None:
        if self._clock() < self._start_at:
            return
        self._start_at = self._clock() + _RESTART_S[min(self._starts, len(_RESTART_S) - 1)]
        self._starts += 1
        self._beat, self._beat_at = {}, self._clock()
        self._worker.start(before_exec, "refuge", self.folder.address)

    def _hear(self) -> None:
        """Journal what the worker said since."""
        for event in (read_json(self.files.said) or {}).get("events") or []:
            uid = str(event.get("uid"))
            if uid in self._known or not str(event.get("kind", "")).startswith("refuge_"):
                continue
            facts = {key: value for key, value in event.items() if key != "kind"}
            self.note(str(event["kind"]), **facts)
            self._known.add(uid)

    def _mind(self) -> None:
        """End a worker that gives no sign of life: its refuge hangs, and no signal but one ends it."""
        beat, now = read_json(self.files.progress) or {}, self._clock()
        if beat != self._beat:
            self._beat, self._beat_at, self._starts = beat, now, min(self._starts, 1)
        elif now - self._beat_at > GIVE_UP_S:
            self.end()
            where = str(beat.get("to") or "")
            self._skip[where] = now + _SKIP_S
            self._beat_at = now
            why = "it has not answered for %d s; is it still attached?" % GIVE_UP_S
            facts = {"cell": str(beat.get("cell") or ""), "place": where, "class": "unreachable", "why": why}
            self.note("refuge_failed", **facts)

    def _identity(self) -> Tuple[int, str]:
        """Return the pid and start of the worker, from its lock: a caretaker before us may have started it."""
        words = read_small(self.files.lock, 100).decode("ascii", "replace").split(None, 1)
        if len(words) == 2 and words[0].isdigit():
            return int(words[0]), words[1].strip()
        process = look(self._worker.pid) if self._worker.pid else None
        return (process.pid, process.started) if process is not None else (0, "")


def _matters(cell: CellState) -> bool:
    return bool(cell.attempt) and cell.state != FINISHED


def _said_of(cell: CellState) -> Dict[str, Any]:
    alive = cell.state in ("starting", "running")
    hurry = not alive or cell.preempted == cell.attempt or bool(cell.leaves) or cell.state == FAILED
    return {"attempt": cell.attempt, "alive": alive, "hurry": hurry}
