"""Start a child in a session of its own, and read what it writes into a pipe."""

from __future__ import annotations

import os
from typing import Callable, List, Sequence

_MOST_FILES = 4096  # more than a caretaker ever opens
_READ_BYTES = 1 << 16


def fork_child(before: Callable[[], None], act: Callable[[], object]) -> int:
    """Fork a child that runs `act` in its own session, as a rule an exec; return its pid."""
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
    """Use these files as the standard streams, in a child; /dev/null for those left out."""
    for number, fd in enumerate((stdin, stdout, stderr)):
        os.dup2(fd if fd >= 0 else os.open(os.devnull, os.O_RDWR), number)


def close_all_but(kept: Sequence[int]) -> None:
    """Close the parent's files, in a child that continues without exec: it must not hold the parent's locks."""
    use_streams()
    lowest = 3
    for fd in sorted(kept):
        os.closerange(lowest, fd)
        lowest = fd + 1
    os.closerange(lowest, max(lowest, _MOST_FILES))


class PipeReader:
    """Reads what a child writes; its end of the pipe closes when it dies, whichever process reaps it."""

    def __init__(self, fd: int, most_bytes: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._most_bytes = most_bytes
        self.data = b""
        self.ended = False

    @property
    def full(self) -> bool:
        """Whether more came than the limit."""
        return len(self.data) > self._most_bytes

    def read(self) -> None:
        """Read what there is, without waiting."""
        while not self.full and not self.ended:
            try:
                piece = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return
            self.data += piece
            self.ended = not piece

    def take_lines(self) -> List[bytes]:
        """Read what there is, and remove and return its complete lines."""
        self.read()
        *lines, self.data = self.data.split(b"\n")
        return lines

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._fd)
