"""A child process that does one long piece of work for the caretaker and may outlive it."""

from __future__ import annotations

import os
from typing import Callable, Sequence

from leasehold.kit.run.processes import look

from .locks import is_held
from .own_command import own_argv

_MOST_FILES = 4096  # more than a caretaker ever opens


class Worker:
    """One door of ours in a session of its own; whoever holds the lock is at work, whoever started it."""

    def __init__(self, lock: str) -> None:
        self.lock = lock
        self.pid = 0

    def start(self, before_exec: Callable[[], None], *door: str) -> None:
        """Start it; the caretaker does not wait."""
        pid = os.fork()
        if pid == 0:
            try:
                before_exec()
                os.setsid()
                argv = own_argv(*door)
                os.execv(argv[0], argv)
            finally:
                os._exit(127)
        self.pid = pid

    def busy(self) -> bool:
        """Whether somebody is at work now, though its parent may be gone."""
        if is_held(self.lock):
            return True
        process = look(self.pid) if self.pid else None
        return process is not None and not process.gone


def close_all_but(kept: Sequence[int]) -> None:
    """Let go of the parent's files, in a child that goes on without exec: its locks must not live on in us."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    lowest = 3
    for fd in sorted(kept):
        os.closerange(lowest, fd)
        lowest = fd + 1
    os.closerange(lowest, max(lowest, _MOST_FILES))
