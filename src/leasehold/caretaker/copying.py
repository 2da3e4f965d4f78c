"""The caretaker's side of the durable copy: start the copier once training is done, and know how it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, Callable, List

from leasehold.kit.procs import look

from . import durable
from .keeper import own_argv
from .layout import RunFolder
from .locks import is_held


class DurableCopy:
    """Results on their way to the tier that outlives the box."""

    def __init__(self, folder: RunFolder, cells: List[str], note: Callable[..., None]) -> None:
        self.folder = folder
        self.cells = cells
        self.note = note
        self.problem = ""  # why the run cannot count as finished
        self._done = False
        self._pid = 0
        self._sealed_unix = 0.0

    def step(self, before_exec: Callable[[], None]) -> bool:
        """Go on with it; tell whether it is over, one way or the other."""
        if self._done or self.busy():
            return self._done
        if self._pid:
            self._judge()
        elif not self._wanted():
            self._done = True
        else:
            self._spawn(before_exec)
        return self._done

    def busy(self) -> bool:
        """Whether somebody copies for this run now, though its parent may be gone."""
        if is_held(self.folder.durable_lock):
            return True
        process = look(self._pid) if self._pid else None
        return process is not None and not process.gone

    @property
    def under_way(self) -> bool:
        """Whether a copier was started and has not been judged."""
        return bool(self._pid) and not self._done

    def end(self) -> None:
        """End the copier: the run is to stop. What was copied is found again."""
        if self._pid and self.busy():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)

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
        pid = os.fork()
        if pid == 0:
            try:
                before_exec()
                os.setsid()
                argv = own_argv("copy", self.folder.path)
                os.execv(argv[0], argv)
            finally:
                os._exit(127)
        self._pid = pid

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
