"""When the box is being taken away: SIGTERM to the caretaker says so, and there are 0 to 120 seconds left.

The newest checkpoint is sent to the durable tier first, since it is there already; the trainer gets SIGTERM, which asks
it to save and leave; what it saves then is sent too. Nothing is begun anew until the box has outlived its own end.
"""

from __future__ import annotations

import signal
import time
from typing import Any, Callable, Dict, Optional, Set, Tuple

from leasehold.kit.runstate import CellState, RunState

from .durable import why_not
from .errand import Errand
from .layout import RunFolder
from .reaper import signal_all, trainer_processes

_RESCUE_LIMIT_S = 600.0
_FORWARD_AFTER_S = 0.2  # whoever told us most likely told everybody: a second SIGTERM may hurt


Phase = Tuple[str, int, bool]  # cell, attempt, whether its trainer still lives


class Preemption:
    """What was announced, and what was saved since."""

    def __init__(self, folder: RunFolder, plan: Dict[str, Any], note: Callable[..., None]) -> None:
        self.folder = folder
        self.plan = plan
        self.note = note
        self._rescue: Dict[str, Tuple[Errand, Phase]] = {}
        self._sent: Set[Phase] = set()
        self._forward_at: Optional[float] = None

    def notice(self, run: RunState, by: str) -> None:
        """Take an announcement: write it down for every live attempt."""
        grace_s = float(self.folder.platform().get("grace_s") or 0.0)
        for name, cell in run.cells.items():
            if cell.state in ("starting", "running") and cell.preempted != cell.attempt:
                self.note("preempt_noticed", cell=name, attempt=cell.attempt, by=by, grace_s=grace_s)
                self._forward_at = time.monotonic() + _FORWARD_AFTER_S

    def step(self, name: str, cell: CellState, before_exec: Callable[[], None]) -> bool:
        """Go on with saving a cell; tell whether nothing is left to be sent."""
        if cell.preempted != cell.attempt or not cell.attempt:
            return True
        alive = cell.state in ("starting", "running")
        phase = (name, cell.attempt, alive)  # sent once when it was announced, and once more when the trainer left
        if name not in self._rescue and phase not in self._sent and not why_not(self.folder.platform()):
            self._rescue[name] = (Errand(_RESCUE_LIMIT_S, before_exec), phase)
        self._send(name)
        if cell.state == "running" and self._forward_at and time.monotonic() >= self._forward_at:
            self._forward_at = None
            found = trainer_processes(cell.pid, cell.started, self.folder.mark(name, cell.attempt))
            signal_all(found, cell.pid, signal.SIGTERM)
        return name not in self._rescue

    def due_s(self) -> Optional[float]:
        """Return in how many seconds the trainer is to be told; None when it was, or need not be."""
        return max(0.0, self._forward_at - time.monotonic()) if self._forward_at else None

    def _send(self, name: str) -> None:
        if name not in self._rescue:
            return
        errand, phase = self._rescue[name]
        found = errand.step("rescue", self.folder.path, name)
        if found is None:
            return
        del self._rescue[name]
        self._sent.add(phase)
        if found.get("to"):
            self.note("durable_copied", cell=name, **found)
        elif found.get("problem"):
            self.note("durable_failed", cell=name, why=str(found["problem"]))
