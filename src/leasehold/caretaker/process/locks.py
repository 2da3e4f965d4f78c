"""Kernel locks on files: they end with their last holder, however it dies.

Lock files get deleted (`find -name '*.lock' -delete`, cleaners of temporary files) while a process holds them. A lock
that was taken is therefore compared with its path, and the holder of the deleted file still counts as the holder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import Optional

from leasehold.kit.files.file_lock import ghost_holders, is_at, try_lock

__all__ = ["HeldLock", "Superseded", "is_held", "try_lock", "wait_lock"]


class Superseded(Exception):
    """The lock's file was deleted or replaced, and another process holds the new one."""


def wait_lock(path: str, timeout_s: float) -> Optional[int]:
    """Take the lock within timeout_s, or return None."""
    deadline = time.monotonic() + timeout_s
    while True:
        fd = try_lock(path)
        if fd is not None or time.monotonic() >= deadline:
            return fd
        time.sleep(0.01)


def is_held(path: str, fresh: bool = True) -> bool:
    """Return whether a process holds the lock now; observers lock shared, so they never take each other for a holder.

    Unless `fresh`, the holder of a deleted file is cached for a tenth of a second, for a look at thousands of cells.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return bool(ghost_holders(path, fresh))
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return bool(ghost_holders(path, fresh))


class HeldLock:
    """A lock that is held for long, checked against its path and taken again when its file was deleted."""

    _RETAKE_S = 2.0  # others hold the new file for a moment: observers, and takers who then see that we are alive

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    def check(self) -> bool:
        """Return whether the file had to be made anew; raise Superseded when another process holds it now."""
        if is_at(self.fd, self.path):
            return False
        try:
            fd = wait_lock(self.path, self._RETAKE_S)
        except OSError:  # a full disk, or the folder itself is gone: nobody else can take it either
            return False
        if fd is None:
            raise Superseded(self.path)
        with contextlib.suppress(OSError):
            os.pwrite(fd, os.pread(self.fd, 4096, 0), 0)  # its holder is written in it
        os.close(self.fd)
        self.fd = fd
        return True
