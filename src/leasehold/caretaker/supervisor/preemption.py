"""Preemption of the box: SIGTERM to the caretaker announces it, and there are 0 to 120 seconds left.

The trainer gets SIGTERM, which asks it to save and exit. Its newest checkpoint is copied off the box at once, and what
it saves then as well (caretaker/refuge/). Nothing is started until the announced end has passed.
"""

from __future__ import annotations

import signal
import time
from typing import Any, Callable, Dict, Optional

from leasehold.caretaker.process.end_processes import signal_all, trainer_processes
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.run.run_state import CellState, RunState

GONE_MARGIN_S = 30.0  # a box that is still here this long after its announced end was not taken away
_FORWARD_AFTER_S = 0.2  # the announcement most likely went to all processes: a second SIGTERM may hurt


class Preemption:
    """An announced preemption, and what was saved since."""

    def __init__(self, folder: RunFolder, plan: Dict[str, Any], note: Callable[..., None]) -> None:
        self.folder = folder
        self.plan = plan
        self.note = note
        self._tell_at: Dict[str, float] = {}  # by cell, in monotonic time; 0 once it was signalled
        self._gone_by = 0.0

    def notice(self, run: RunState, by: str) -> None:
        """Record an announcement for every live attempt."""
        grace_s = float(self.folder.platform().get("grace_s") or 0.0)
        self._gone_by = time.monotonic() + grace_s + GONE_MARGIN_S
        for name, cell in run.cells.items():
            if cell.state in ("starting", "running") and cell.preempted != cell.attempt:
                self.note("preempt_noticed", cell=name, attempt=cell.attempt, by=by, grace_s=grace_s)

    def left_s(self) -> float:
        """Return how long an announced end may still be ahead; nothing is started then. Known only to this process."""
        return max(0.0, self._gone_by - time.monotonic())

    def step(self, name: str, cell: CellState) -> None:
        """Forward an announcement to a cell's trainer."""
        if cell.preempted != cell.attempt or not cell.attempt:
            self._tell_at.pop(name, None)
        elif cell.state == "running":
            self._tell(name, cell)

    def due_s(self) -> Optional[float]:
        """Return in how many seconds a trainer is to be signalled; None when none is."""
        return min((max(0.0, at - time.monotonic()) for at in self._tell_at.values() if at), default=None)

    def _tell(self, name: str, cell: CellState) -> None:
        """Forward the SIGTERM once; a caretaker that took over does not know whether that was done, and repeats it."""
        if name not in self._tell_at:
            self._tell_at[name] = time.monotonic() + _FORWARD_AFTER_S
        elif self._tell_at[name] and time.monotonic() >= self._tell_at[name]:
            self._tell_at[name] = 0.0
            found = trainer_processes(cell.pid, cell.started, self.folder.mark(name, cell.attempt))
            signal_all(found, cell.pid, signal.SIGTERM)
