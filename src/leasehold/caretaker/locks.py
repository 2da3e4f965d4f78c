"""Kernel locks on files: they end with their last holder, however it dies."""

from __future__ import annotations

import fcntl
import os
import time
from typing import Optional


def try_lock(path: str) -> Optional[int]:
    """Take the lock and return its fd, or None when somebody holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def wait_lock(path: str, timeout_s: float) -> Optional[int]:
    """Take the lock within timeout_s, or return None."""
    deadline = time.monotonic() + timeout_s
    while True:
        fd = try_lock(path)
        if fd is not None or time.monotonic() >= deadline:
            return fd
        time.sleep(0.01)


def is_held(path: str) -> bool:
    """Tell whether somebody holds the lock now; lookers share, so that they never take each other for a holder."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
