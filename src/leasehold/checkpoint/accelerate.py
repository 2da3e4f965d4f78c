"""Save and load through Accelerate's save_state and load_state: whole or not at all, on schedule and at SIGTERM.

from leasehold.checkpoint.accelerate import AccelerateCheckpoints

ckpt = AccelerateCheckpoints(accelerator, "ckpt")
step = ckpt.restore()
for step in range(step, steps):
    ...
    ckpt.step(step, metrics={"loss": loss})
"""

from __future__ import annotations

import re
import signal
import time
from typing import Any, Mapping, Optional

from leasehold.checkpoint.decide.log_lines import ProgressLines, to_stderr
from leasehold.checkpoint.store.native import NativeCheckpoints


class AccelerateCheckpoints:
    """Saves and loads through the accelerator, which knows what was prepared and registered."""

    def __init__(
        self,
        accelerator: Any,
        folder: str = "ckpt",
        keep: int = 2,
        every_s: Optional[float] = None,
        total: Optional[int] = None,
    ) -> None:
        """Use a folder, below $LEASE_OUT inside a Leasehold run."""
        self._accelerator = accelerator
        self._shelf = NativeCheckpoints(folder, keep, every_s)
        self._lines = ProgressLines(total, to_stderr)

    def restore(self) -> int:
        """Load the newest whole checkpoint; return the next step, 0 for a fresh start."""
        self._shelf.wishes.listen()
        found = self._shelf.newest()
        if not found:
            return 0
        self._accelerator.load_state(found)
        number = re.search(r"step-(\d+)", found)
        return int(number.group(1)) if number else 0

    def step(self, step: int, metrics: Optional[Mapping[str, Any]] = None, epoch: Optional[float] = None) -> bool:
        """Note that a step is done; save if that is due or requested, and exit if that was requested."""
        if self._accelerator.is_main_process:
            self._lines.step(step + 1, epoch, metrics, time.monotonic())
        if not self._shelf.due():
            return False
        self.save(step + 1)
        if self._shelf.wishes.leave:
            self._shelf.ended("signal")
            raise SystemExit(128 + signal.SIGTERM)
        return True

    def save(self, done: int) -> str:
        """Save now, as the state after this many steps."""
        return self._shelf.save(done, lambda place: self._accelerator.save_state(place))
