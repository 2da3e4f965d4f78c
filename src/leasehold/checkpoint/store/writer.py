"""One write at a time, in its own thread, so that the training continues meanwhile."""

from __future__ import annotations

import threading
import time
from typing import Callable, NamedTuple, Optional

from .files import Written


class Outcome(NamedTuple):
    """How a write ended."""

    step: int
    seconds: float
    written: Optional[Written] = None
    error: Optional[Exception] = None


class Writer:
    """Runs a write; its outcome is kept until it is requested."""

    def __init__(self) -> None:
        self._thread: Optional[threading.Thread] = None
        self._outcome: Optional[Outcome] = None

    @property
    def busy(self) -> bool:
        """Return whether a write is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, step: int, work: Callable[[], Written]) -> None:
        """Start the write; the caller has taken the previous outcome."""
        # Not a daemon: Python waits for it at exit, so that a finished training's last file is whole.
        self._thread = threading.Thread(target=self._run, args=(step, work), name="leasehold-write")
        self._thread.start()

    def take(self, wait: bool = False) -> Optional[Outcome]:
        """Return the outcome once, if there is one; wait for it if asked to."""
        if self._thread is None or (not wait and self._thread.is_alive()):
            return None
        self._thread.join()
        self._thread, outcome = None, self._outcome
        return outcome

    def _run(self, step: int, work: Callable[[], Written]) -> None:
        begun = time.monotonic()
        try:
            written, error = work(), None
        except Exception as problem:  # noqa: BLE001 - the thread's boundary: the trainer is told at its next step
            written, error = None, problem
        self._outcome = Outcome(step, time.monotonic() - begun, written, error)
