"""The caretaker's side of publishing: start the publisher after training, try again after a cut, record the outcome.

A run whose results cannot be published is finished all the same: they come home as always. The failure is said aloud.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, Callable, Dict, Mapping

from leasehold.caretaker.process.child_worker import Worker
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json

GIVE_UP_S = 600.0  # without a byte of progress
_AGAIN_S = (10.0, 60.0, 180.0)  # after a cut
_SAY_AFTER_S = 30.0


class Publication:
    """Publishes a run's results where the job says."""

    def __init__(
        self, folder: RunFolder, plan: Mapping[str, Any], note: Callable[..., None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.to = str(plan["job"].get("publish") or "")
        self.note = note
        self._clock = clock
        self._done = not self.to or not plan["cells"]
        self._worker = Worker(folder.publish_lock)
        self._tries = 0
        self._due = 0.0
        self._shown: Dict[str, Any] = {}
        self._moved_at = self._told_at = clock()

    def step(self, before_exec: Callable[[], None]) -> bool:
        """Take the next step; return whether publishing is over, successful or not."""
        if self._done or self._clock() < self._due:
            return self._done
        if self._worker.busy():
            self._mind()
        elif self._worker.pid:
            self._judge()
        else:
            self._spawn(before_exec)
        return self._done

    @property
    def under_way(self) -> bool:
        """Return whether it was begun and is not over."""
        return bool(self._worker.pid or self._tries) and not self._done

    def end(self) -> None:
        """End the publisher because the run is to stop; parts that arrived are continued next time."""
        if self._worker.pid and self._worker.busy():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._worker.pid, signal.SIGKILL)

    def _spawn(self, before_exec: Callable[[], None]) -> None:
        for left_over in (self.folder.publish, self.folder.publish_progress):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(left_over)
        if not self._tries:
            self.note("publish_started", to=self.to)
        self._tries += 1
        self._moved_at = self._told_at = self._clock()
        self._worker.start(before_exec, "publish", self.folder.path)

    def _mind(self) -> None:
        now, shown = self._clock(), read_json(self.folder.publish_progress) or {}
        if shown != self._shown:
            self._shown, self._moved_at = shown, now
            if now - self._told_at > _SAY_AFTER_S:
                self._told_at = now
                self.note("publish_progress", **shown)
        if now - self._moved_at > GIVE_UP_S:
            self.end()
            self._fail("%s has not answered for %d s" % (self.to, GIVE_UP_S), "unreachable")

    def _judge(self) -> None:
        outcome = read_json(self.folder.publish) or {"problem": "the publisher ended without an outcome", "again": True}
        self._worker.pid = 0
        if outcome.get("ok"):
            self._done = True
            facts = {key: outcome.get(key) for key in ("to", "how", "files", "bytes", "contents_sha256")}
            self.note("published", **facts)
        elif outcome.get("again") and self._tries <= len(_AGAIN_S):
            pause_s = _AGAIN_S[self._tries - 1]
            self._due = self._clock() + pause_s
            self.note("publish_retry", to=self.to, why=str(outcome.get("problem"))[:500], again_s=pause_s)
        else:
            self._fail(str(outcome.get("problem"))[:500], str(outcome.get("class") or ""))

    def _fail(self, why: str, kind: str) -> None:
        self._done = True
        self.note("publish_failed", to=self.to, why=why, **({"class": kind} if kind else {}))
