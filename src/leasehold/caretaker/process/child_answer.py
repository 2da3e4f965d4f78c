"""A short-lived child that finds something out for the caretaker and answers through a pipe.

What it imports ends with it, and its answer needs no disk: most questions are asked when the disk is full. Nothing is
kept of an errand; a caretaker that died in its middle is followed by one that sends it again.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Any, Callable, Dict, Optional

from .own_command import Becoming, own_argv

_MOST_BYTES = 60000  # below what a pipe holds: the child never waits for us to read
_TRIES = 2

Answer = Dict[str, Any]


class Errand:
    """One question, asked at most twice, within a time."""

    def __init__(self, limit_s: float, before_exec: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._before_exec = before_exec
        self._pid = 0
        self._reader = -1
        self._heard = b""
        self._until = 0.0
        self._tries = 0

    def step(self, *door: str) -> Optional[Answer]:
        """Go on with it: None while it is under way, then the answer, or {problem} when there is none to be had."""
        if not self._pid:
            self._start(door)
            return None
        if not self._over():
            if time.monotonic() < self._until:
                return None
            self.end()
        return self._close()

    def end(self) -> None:
        """End the child, if there is one."""
        if self._pid:
            with contextlib.suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)

    def _start(self, door: Any) -> None:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self._before_exec()
                os.setsid()
                os.dup2(writer, 1)
                os.close(0)
                os.open(os.devnull, os.O_RDONLY)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                if not self._tries:
                    Becoming.go(*door)
                argv = own_argv(*door)
                argv[1:1] = ["-X", "pycache_prefix=" + os.devnull]  # the first one may have died of a torn cache
                os.execv(argv[0], argv)
            finally:
                os._exit(127)
        os.close(writer)
        os.set_blocking(reader, False)
        self._pid, self._reader, self._heard = pid, reader, b""
        self._until = time.monotonic() + self._limit_s
        self._tries += 1

    def _over(self) -> bool:
        """Read what there is; its end of the pipe closes when it dies."""
        while len(self._heard) <= _MOST_BYTES:
            try:
                piece = os.read(self._reader, 65536)
            except BlockingIOError:
                return False
            if not piece:
                return True
            self._heard += piece
        return True

    def _close(self) -> Optional[Answer]:
        os.close(self._reader)
        late = time.monotonic() >= self._until
        self._pid, self._reader = 0, -1
        try:
            answer = json.loads(self._heard.decode("utf-8"))
        except ValueError:
            answer = None
        if isinstance(answer, dict):
            return answer
        if self._tries < _TRIES and not late:
            return None
        return {"problem": "no answer within %g s" % self._limit_s if late else "it died without an answer"}


def answer(value: Answer) -> int:
    """Say the answer, in the child."""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
    os.write(1, data[:_MOST_BYTES])
    return 0
