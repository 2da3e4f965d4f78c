"""A short-lived child that finds something out for the caretaker and answers through a pipe.

Its imports end with it, and its answer needs no disk: most questions come up when the disk is full. No state of
an errand is kept: the successor of a caretaker that died during one starts it again.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Any, Callable, Dict, Optional

from .child import PipeReader, fork_child, use_streams
from .own_command import Becoming, own_argv

_MOST_BYTES = 60000  # below what a pipe holds: the child never waits for us to read
_TRIES = 2

Answer = Dict[str, Any]


class Errand:
    """One question, attempted at most twice, within a time limit."""

    def __init__(self, limit_s: float, before_exec: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._before_exec = before_exec
        self._pid = 0
        self._pipe: Optional[PipeReader] = None
        self._until = 0.0
        self._tries = 0

    def step(self, *door: str) -> Optional[Answer]:
        """Take the next step: None while it is under way, then the answer, or {problem} when there is none."""
        if self._pipe is None:
            self._start(door)
            return None
        if not self._over(self._pipe):
            if time.monotonic() < self._until:
                return None
            self.end()
        return self._close(self._pipe)

    def end(self) -> None:
        """End the child, if there is one."""
        if self._pid:
            with contextlib.suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)

    def _start(self, door: Any) -> None:
        reader, writer = os.pipe()
        self._pid = fork_child(self._before_exec, lambda: self._become(door, writer))
        os.close(writer)
        self._pipe = PipeReader(reader, _MOST_BYTES)
        self._until = time.monotonic() + self._limit_s
        self._tries += 1

    def _become(self, door: Any, writer: int) -> None:
        use_streams(stdout=writer)
        if not self._tries:
            Becoming.go(*door)
        argv = own_argv(*door)
        argv[1:1] = ["-X", "pycache_prefix=" + os.devnull]  # the first one may have died of a torn cache
        os.execv(argv[0], argv)

    def _over(self, pipe: PipeReader) -> bool:
        pipe.read()
        return pipe.ended or pipe.full

    def _close(self, pipe: PipeReader) -> Optional[Answer]:
        pipe.close()
        late = time.monotonic() >= self._until
        self._pid, self._pipe = 0, None
        try:
            answer = json.loads(pipe.data.decode("utf-8"))
        except ValueError:
            answer = None
        if isinstance(answer, dict):
            return answer
        if self._tries < _TRIES and not late:
            return None
        return {"problem": "no answer within %g s" % self._limit_s if late else "it died without an answer"}


def answer(value: Answer) -> int:
    """Write the answer, in the child."""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
    os.write(1, data[:_MOST_BYTES])
    return 0
