"""The caretaker's side of the durable copy: start the copier after training and find out how it ended.

Only the copier (durable_copier.py) touches the tier: a process that accesses a hanging mount hangs too, and no
signal ends it. It is not imported here either, so that the caretaker does not carry the memory of hashing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, Callable, Dict, List, Mapping

from leasehold.caretaker.process.child_worker import Worker
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json

GIVE_UP_S = 600  # without a byte of progress
_SAY_AFTER_S = 30.0


class DurableCopy:
    """Copies results to the tier that outlives the box."""

    def __init__(
        self,
        folder: RunFolder,
        plan: Mapping[str, Any],
        note: Callable[..., None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.cells: List[str] = list(plan["cells"])
        self.note = note
        self.problem = ""  # why the run cannot count as finished
        self._clock = clock
        self._done = False
        self._worker = Worker(folder.durable_lock)
        self._sealed_unix = 0.0
        self._shown: Dict[str, Any] = {}
        self._moved_at = clock()
        self._told_at = clock()
        self._silence_told_s = 0.0
        self._announced = False

    def step(self, before_exec: Callable[[], None]) -> bool:
        """Take the next step; return whether the copy is over, successful or not."""
        if self._done:
            return True
        if self._worker.busy():
            self._mind()
        elif self._worker.pid:
            self._judge()
        elif not self.cells or not self.folder.platform().get("durable"):
            self._done = True
        else:
            self._spawn(before_exec)
        return self._done

    @property
    def under_way(self) -> bool:
        """Return whether a copier was started and its outcome is not judged yet."""
        return bool(self._worker.pid) and not self._done

    def end(self) -> None:
        """End the copier because the run is to stop. What was copied is reused next time."""
        if self._worker.pid and self._worker.busy():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._worker.pid, signal.SIGKILL)

    def _spawn(self, before_exec: Callable[[], None]) -> None:
        for left_over in (self.folder.durable, self.folder.durable_progress):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(left_over)
        self._sealed_unix = time.time()
        self._moved_at = self._told_at = self._clock()
        self._worker.start(before_exec, "copy", self.folder.path)

    def _mind(self) -> None:
        """Report progress, at growing intervals; give the copy up when it has not moved for too long."""
        now, shown = self._clock(), read_json(self.folder.durable_progress) or {}
        if shown != self._shown:
            self._shown, self._moved_at, self._silence_told_s = shown, now, 0.0
            self._announce()
            if self._announced and now - self._told_at > _SAY_AFTER_S:
                self._told_at = now
                self.note("durable_progress", **shown)
        silent_s = round(now - self._moved_at)
        if silent_s > GIVE_UP_S:
            self.end()
            self._fail("%s has not answered for %d s; is it still attached?" % (self._target(), silent_s))
        elif silent_s > max(_SAY_AFTER_S, 2 * self._silence_told_s):
            self._silence_told_s = silent_s
            self.note("durable_waiting", to=self._target(), silent_s=silent_s, limit_s=GIVE_UP_S, **self._shown)

    def _announce(self) -> None:
        if not self._announced and self._shown.get("phase") in ("copying", "reading back"):
            self._announced = True
            self.note("durable_started", to=self._target())

    def _judge(self) -> None:
        self._done = True
        outcome = outcome_of(self.folder)
        if not outcome.get("ok"):
            self._fail(str(outcome.get("problem")))
            return
        if outcome.get("skipped"):
            self.note("durable_skipped", why=outcome["skipped"])
            return
        facts: Any = {key: outcome.get(key) for key in ("to", "how", "files", "bytes")}
        for cell in self.cells:
            self.note("durable_copied", cell=cell, state_unix=self._sealed_unix, **facts)

    def _fail(self, why: str) -> None:
        self._done = True
        self.problem = "the copy to the durable tier failed: %s" % why
        self.note("durable_failed", why=why)

    def _target(self) -> str:
        return target_of(self.folder.platform())


def target_of(platform: Dict[str, Any]) -> str:
    """Return our folder on the durable tier, or nothing when the platform has none."""
    tier = str(platform.get("durable", ""))
    return os.path.join(tier, "leasehold") if tier.startswith("/") else ""


def outcome_of(folder: RunFolder) -> Dict[str, Any]:
    """Read the outcome that the last copier left; a copier that left none has died."""
    return read_json(folder.durable) or {"ok": False, "problem": "the copier ended without an outcome"}
