"""Start a child in a session of its own, and read what it writes into a pipe."""

from __future__ import annotations

import os
from typing import Callable, List, Sequence

_MOST_FILES = 4096  # more than a caretaker ever opens
_READ_BYTES = 1 << 16


def fork_child(before: Callable[[], None], act: Callable[[], object]) -> int:
    """Fork a child that does this in a session of its own, as a rule an exec; return its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            before()
            os.setsid()
            act()
        finally:
            os._exit(127)  # nothing may return into the parent's code
    return pid


def use_streams(stdin: int = -1, stdout: int = -1, stderr: int = -1) -> None:
    """Have these files as the standard streams, in a child; what is left out is /dev/null."""
    for number, fd in enumerate((stdin, stdout, stderr)):
        os.dup2(fd if fd >= 0 else os.open(os.devnull, os.O_RDWR), number)


def close_all_but(kept: Sequence[int]) -> None:
    """Let go of the parent's files, in a child that goes on without exec: its locks must not live on in us."""
    use_streams()
    lowest = 3
    for fd in sorted(kept):
        os.closerange(lowest, fd)
        lowest = fd + 1
    os.closerange(lowest, max(lowest, _MOST_FILES))


class PipeReader:
    """What a child has written so far; its end of the pipe closes when it dies, whoever reaps it."""

    def __init__(self, fd: int, most_bytes: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._most_bytes = most_bytes
        self.data = b""
        self.ended = False

    @property
    def full(self) -> bool:
        """Whether more came than is taken in."""
        return len(self.data) > self._most_bytes

    def read(self) -> None:
        """Take in what there is; never waits."""
        while not self.full and not self.ended:
            try:
                piece = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return
            self.data += piece
            self.ended = not piece

    def take_lines(self) -> List[bytes]:
        """Take in what there is and remove its whole lines."""
        self.read()
        *lines, self.data = self.data.split(b"\n")
        return lines

    def close(self) -> None:
        """Read no more."""
        os.close(self._fd)
