"""A child process that does one long piece of work for the caretaker and may outlive it."""

from __future__ import annotations

import os
from typing import Callable

from leasehold.kit.run.processes import look

from .child import fork_child
from .locks import is_held
from .own_command import own_argv


class Worker:
    """An entry point of ours as a detached process; the holder of its lock is at work, whichever process started it."""

    def __init__(self, lock: str) -> None:
        self.lock = lock
        self.pid = 0

    def start(self, before_exec: Callable[[], None], *door: str) -> None:
        """Start it; the caretaker does not wait."""
        argv = own_argv(*door)
        self.pid = fork_child(before_exec, lambda: os.execv(argv[0], argv))

    def busy(self) -> bool:
        """Return whether a worker is running now, even if its parent is gone."""
        if is_held(self.lock):
            return True
        process = look(self.pid) if self.pid else None
        return process is not None and not process.gone
