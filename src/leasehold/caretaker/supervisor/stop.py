"""Stop a run on request: the trainer is asked to save, then terminated, then killed.

A stop asks for a save (`save-request`), waits for the answer for a bounded time if the trainer supports it, then sends
SIGTERM, which asks for the same, and SIGKILL when the grace is over. preemption.py does it for a preempted box.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Any, Callable, Dict, Set

from leasehold.caretaker.process.end_processes import signal_all, trainer_processes
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.work_clock import literal_part
from leasehold.kit.files.atomic import read_json, write_atomic
from leasehold.kit.run.run_state import CellState, RunState

_DEFAULT_GRACE_S = 30.0
_SAVE_SHARE = 0.5  # share of the grace that waiting for a save may take


class Stopping:
    """Stop requests, and what was done about them."""

    def __init__(self, folder: RunFolder, plan: Dict[str, Any], note: Callable[..., None]) -> None:
        self.folder = folder
        self.plan = plan
        self.note = note
        self._begun: Dict[str, float] = {}  # cell -> when it was first pressed
        self._told: Set[str] = set()

    def hear(self, run: RunState) -> float:
        """Journal a new request; return the grace that holds."""
        wish = read_json(self.folder.stop)
        if wish is not None and wish.get("id") not in run.stops:
            grace = wish.get("grace_s", _DEFAULT_GRACE_S)
            self.note("stop_requested", id=wish.get("id"), by=wish.get("by", ""), grace_s=grace)
            self._begun.clear()
            self._told.clear()
        return float((wish or {}).get("grace_s", _DEFAULT_GRACE_S))

    def press(self, name: str, cell: CellState, grace_s: float) -> None:
        """Bring one live attempt nearer to its end: ask it to save, then TERM, then KILL."""
        now = time.monotonic()
        if name not in self._begun:
            self._begun[name] = now
            self._ask(name, cell)
        if now < self._begun[name] + self._patience_s(grace_s) and self._saving(name):
            return
        alive = trainer_processes(cell.pid, cell.started, self.folder.mark(name, cell.attempt))
        if name not in self._told:
            self._told.add(name)
            signal_all(alive, cell.pid, signal.SIGTERM)
        elif now > self._begun[name] + grace_s:
            signal_all(alive, cell.pid, signal.SIGKILL)

    def _patience_s(self, grace_s: float) -> float:
        """Return how long to wait for a save: twice what one takes, and never most of the grace."""
        write_s = float((self.plan["job"].get("checkpoint") or {}).get("write_s") or 0.0)
        return min(_SAVE_SHARE * grace_s, max(5.0, 2 * write_s + 2.0))

    def _ask(self, name: str, cell: CellState) -> None:
        request = self.folder.save_request(name)
        with contextlib.suppress(OSError):
            os.unlink(request + ".done")
        with contextlib.suppress(OSError):  # a full disk: SIGTERM asks for the same
            write_atomic(request, b"%d\n" % cell.attempt, durable=False)

    def _saving(self, name: str) -> bool:
        """Return whether an answer is still to come; only our Checkpointer answers, and its folder has an index."""
        if os.path.exists(self.folder.save_request(name) + ".done"):
            return False
        pattern = str((self.plan["job"].get("checkpoint") or {}).get("path") or "")
        place = os.path.join(self.folder.out(name), literal_part(pattern))
        folders = (place, os.path.dirname(place))
        return bool(pattern) and any(os.path.exists(os.path.join(folder, "index.json")) for folder in folders)


def request_stop(folder: RunFolder, wish: Dict[str, Any]) -> None:
    """Leave a stop request where the caretaker will find it, also after its own death."""
    write_atomic(folder.stop, json.dumps(wish).encode())
