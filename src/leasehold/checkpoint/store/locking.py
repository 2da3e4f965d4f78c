"""Lock the folder, so that two trainings never share it: the second would prune what the first needs."""

from __future__ import annotations

import errno
import os

from leasehold.kit.files.file_lock import ghost_holders, is_at

from .restore import CheckpointError


class FolderLock:
    """An advisory lock that the system releases when the process dies."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, ".lock")
        self._fd = -1

    def take(self) -> None:
        """Take it, or report its holder; on a filesystem without locks, continue without."""
        if self._fd >= 0:
            return
        try:
            import fcntl
        except ImportError:  # Windows
            return
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(fd)
                if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    raise self._taken() from None
                return
            if is_at(fd, self._path):
                break
            os.close(fd)  # the file was deleted between open and lock
        if set(ghost_holders(self._path)) - {os.getpid()}:  # the holder of a deleted file of this name still saves here
            os.close(fd)
            raise self._taken()
        self._fd = fd

    def _taken(self) -> CheckpointError:
        folder = os.path.dirname(self._path)
        return CheckpointError("another process saves into %s; give each training a folder of its own" % folder)

    def give_back(self) -> None:
        """Release the lock."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
