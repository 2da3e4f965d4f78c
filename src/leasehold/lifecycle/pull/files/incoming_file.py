"""One file of a pull, as it arrives."""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import dataclass, field

from leasehold.kit.wire.frames import BLOCK_BYTES

from .spans import Spans

Bytes = bytes  # a field of this name would hide the type
Part = bytes | memoryview


@dataclass(eq=False, slots=True)
class Coming:
    """A file as the box reports it, and the parts of it that are here."""

    number: int
    cell: str
    path: str
    bytes: int
    mtime_ns: int
    target: str
    name: str = ""  # its path at home, below its cell's folder
    home: Spans = field(default_factory=Spans)
    asked: Spans = field(default_factory=Spans)  # here, or requested
    upto: int = 0  # how much of it the box has hashed: requests may go that far
    sha256: str = ""
    sealed: bool = False  # it comes whole, followed by its sum
    held: bool = False  # wait for its sum: the file may already be here under another name
    alone: bool = False  # the box refused a batch that contained it
    strikes: int = 0
    mending: bool = False
    proved: bool = False
    skipped: bool = False
    why: str = ""  # it is skipped
    _fd: int = -1
    _direct_fd: int = -1
    _no_direct: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)  # a closed number may by now belong to another file

    @property
    def key(self) -> str:
        """Return its name in logs and messages."""
        return f"{self.cell}/{self.path}"

    @property
    def small(self) -> bool:
        """Return whether it is one block, written and hashed in one call."""
        return self.bytes <= BLOCK_BYTES

    @property
    def whole(self) -> bool:
        """Return whether every byte is here."""
        return self.home.covers(0, self.bytes)

    def write(self, part: Part, offset: int) -> None:
        """Write bytes at their offset; the file has its full length from the start, and missing parts are holes."""
        view = memoryview(part)
        with self._lock:
            fd = self._opened()
            while len(view):
                written = os.pwrite(fd, view, offset)
                view, offset = view[written:], offset + written

    def write_past_cache(self, block: memoryview, offset: int) -> None:
        """Write an aligned block at its aligned offset, directly to the disk; through the cache if that fails."""
        with self._lock:
            if self._opened_direct():
                try:
                    done = os.pwrite(self._direct_fd, block, offset)
                except OSError as error:
                    if error.errno != errno.EINVAL:
                        raise
                    self._no_direct, done = True, 0
                block, offset = block[done:], offset + done
        self.write(block, offset)

    def read(self, count: int, offset: int) -> Bytes:
        """Read bytes that are here."""
        with self._lock:
            return os.pread(self._opened(), count, offset)

    def close(self) -> None:
        """Close it. A second call does nothing; a later write opens it again."""
        with self._lock:
            fds, self._fd, self._direct_fd = (self._fd, self._direct_fd), -1, -1
            for fd in fds:
                if fd >= 0:
                    os.close(fd)

    def _opened(self) -> int:
        if self._fd < 0:
            careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
            os.makedirs(os.path.dirname(self.target), exist_ok=True)
            self._fd = os.open(self.target, os.O_RDWR | os.O_CREAT | careful, 0o644)
            os.ftruncate(self._fd, self.bytes)
        return self._fd

    def _opened_direct(self) -> bool:
        direct = getattr(os, "O_DIRECT", 0)
        if self._direct_fd < 0 and direct and not self._no_direct:
            self._opened()  # by then it has its length and its folder
            try:
                self._direct_fd = os.open(self.target, os.O_WRONLY | direct | os.O_NOFOLLOW)
            except OSError:  # tmpfs and some network filesystems refuse O_DIRECT
                self._no_direct = True
        return self._direct_fd >= 0 and not self._no_direct
