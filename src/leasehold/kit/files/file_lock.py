"""A kernel lock on a file, and ghost locks: held on a file that was deleted or replaced, so its path looks free.

A flock belongs to the inode, not to the path. After `find -name '*.lock' -delete` the holder still holds the old
inode, and the next process creates and locks a new one. Both then believe that they are alone.
"""

from __future__ import annotations

import os
import time
from typing import Dict, List, Optional, Tuple

_DELETED = " (deleted)"
_GOOD_FOR_S = 0.1  # a survey of thousands of cells reads the table once

_read: Tuple[float, Dict[str, List[int]]] = (float("-inf"), {})


def try_lock(path: str) -> Optional[int]:
    """Take the lock and return its fd, or None if another process holds it, even on a deleted file of this name."""
    import fcntl  # imported here: Windows has none

    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        if not is_at(fd, path):  # deleted between open and lock: that lock excludes nobody
            os.close(fd)
        elif set(ghost_holders(path)) - {os.getpid()}:
            os.close(fd)
            return None
        else:
            return fd


def is_at(fd: int, path: str) -> bool:
    """Return whether the open file is still the one at this path."""
    try:
        held, there = os.fstat(fd), os.stat(path)
    except OSError:
        return False
    return (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino)


def ghost_holders(path: str, fresh: bool = True) -> List[int]:
    """List live processes that hold a lock on a deleted file of this name; empty if the kernel does not report it.

    The kernel does not list a lock whose process has ended, though it lives on in a child.
    """
    global _read
    now = time.monotonic()
    if fresh or now - _read[0] > _GOOD_FOR_S:
        _read = (now, _deleted_and_locked())
    folder, name = os.path.split(path)
    return _read[1].get(os.path.join(os.path.realpath(folder), name), [])


def _deleted_and_locked() -> Dict[str, List[int]]:
    """Map paths of deleted files to the processes that hold a lock and have that file open."""
    found: Dict[str, List[int]] = {}
    for pid in _lockers():
        folder = "/proc/%d/fd" % pid
        try:
            links = [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)]
        except OSError:  # of another user, or gone
            continue
        for link in links:
            if link.endswith(_DELETED):
                found.setdefault(link[: -len(_DELETED)], []).append(pid)
    return found


def _lockers() -> List[int]:
    """List the live processes that took an exclusive flock."""
    try:
        with open("/proc/locks", "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return []
    rows = [line.split() for line in lines]
    taken = {row[4] for row in rows if len(row) > 5 and row[1] == b"FLOCK" and row[3] == b"WRITE"}
    return sorted(int(pid) for pid in taken if pid.isdigit())
