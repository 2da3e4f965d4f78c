"""The caretaker's side of the durable copy: start the copier once training is done, and know how it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, Callable, List

from . import durable
from .layout import RunFolder
from .worker import Worker


class DurableCopy:
    """Results on their way to the tier that outlives the box."""

    def __init__(self, folder: RunFolder, cells: List[str], note: Callable[..., None]) -> None:
        self.folder = folder
        self.cells = cells
        self.note = note
        self.problem = ""  # why the run cannot count as finished
        self._done = False
        self._worker = Worker(folder.durable_lock)
        self._sealed_unix = 0.0

    def step(self, before_exec: Callable[[], None]) -> bool:
        """Go on with it; tell whether it is over, one way or the other."""
        if self._done or self._worker.busy():
            return self._done
        if self._worker.pid:
            self._judge()
        elif not self._wanted():
            self._done = True
        else:
            self._spawn(before_exec)
        return self._done

    @property
    def under_way(self) -> bool:
        """Whether a copier was started and has not been judged."""
        return bool(self._worker.pid) and not self._done

    def end(self) -> None:
        """End the copier: the run is to stop. What was copied is found again."""
        if self._worker.pid and self._worker.busy():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._worker.pid, signal.SIGKILL)

    def _wanted(self) -> bool:
        platform = self.folder.platform()
        if not platform.get("durable"):
            return False
        why = durable.why_not(platform)
        if why:
            self.note("durable_skipped", why=why)
        return not why

    def _spawn(self, before_exec: Callable[[], None]) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.folder.durable)
        self._sealed_unix = time.time()
        self.note("durable_started", to=durable.target_of(self.folder.platform()))
        self._worker.start(before_exec, "copy", self.folder.path)

    def _judge(self) -> None:
        self._done = True
        outcome = durable.outcome_of(self.folder)
        if not outcome.get("ok"):
            self.problem = "the copy to the durable tier failed: %s" % outcome.get("problem")
            self.note("durable_failed", why=outcome.get("problem"))
            return
        facts: Any = {key: outcome.get(key) for key in ("to", "how", "files", "bytes")}
        for cell in self.cells:
            self.note("durable_copied", cell=cell, state_unix=self._sealed_unix, **facts)
