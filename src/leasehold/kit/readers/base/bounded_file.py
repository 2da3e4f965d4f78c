"""An open regular file, read at given places in bounded pieces."""

from __future__ import annotations

import os
import stat
from copy import copy
from types import TracebackType
from typing import Iterator, Optional, Type

from .result import Unreadable

CHUNK_BYTES = 1024 * 1024  # fits the L2 cache, so a checksum reads each byte from memory once


class Source:
    """A regular, non-empty file. Close it, or use it as a context manager; closing twice is harmless."""

    def __init__(self, fd: int, path: str) -> None:
        self._file = os.fdopen(fd, "rb", buffering=0)
        self._buffer = bytearray(0)
        self._begin = 0
        self.path = path
        self.size = _regular_size(os.fstat(fd))

    def read_at(self, offset: int, count: int) -> bytes:
        """Return exactly `count` bytes; the caller has bounded `count`."""
        if offset < 0 or count < 0 or offset + count > self.size:
            raise Unreadable(
                f"cut short or lying: bytes {offset} to {offset + count} are needed, the file has {self.size}"
            )
        return b"".join(bytes(piece) for piece in self.pieces(offset, count))

    def window(self, offset: int, count: int) -> Source:
        """Return a part of this file as a separate source, usable as long as this one is open."""
        if offset < 0 or count <= 0 or offset + count > self.size:
            raise Unreadable(f"cut short or lying: a part of {count} bytes at {offset}, the file has {self.size}")
        part = copy(self)
        part._begin, part.size, part._buffer = self._begin + offset, count, bytearray(0)
        return part

    def pieces(self, offset: int, count: int) -> Iterator[memoryview]:
        """Yield the bytes in pieces of at most CHUNK_BYTES; a piece is valid until the next is requested."""
        if not self._buffer:
            self._buffer = bytearray(min(CHUNK_BYTES, self.size))  # a small file needs less: a byte is a page to clear
        window = memoryview(self._buffer)
        while count > 0:
            piece = window[: min(count, CHUNK_BYTES)]
            self._fill(piece, offset)
            yield piece
            offset += len(piece)
            count -= len(piece)

    def _fill(self, window: memoryview, offset: int) -> None:
        """Fill the window to its end: pieces must begin at an element, however little each read returns."""
        done = 0
        while done < len(window):
            try:
                # Seek each time: the consumer may read elsewhere between two pieces.
                self._file.seek(self._begin + offset + done)
                got = self._file.readinto(window[done:])
            except OSError as error:
                raise Unreadable(f"reading byte {offset + done} failed: {error.strerror}") from error
            if not got:
                raise Unreadable(f"the file ended at byte {offset + done}; it had {self.size} bytes when it was opened")
            done += got

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


def open_source(path: str) -> Source:
    """Open a regular file for reading; a pipe or device is refused without blocking."""
    flags = os.O_RDONLY
    for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        fd = os.open(path, flags)
    except (OSError, ValueError) as error:
        raise Unreadable(f"cannot be opened: {getattr(error, 'strerror', None) or error}") from error
    try:
        _regular_size(os.fstat(fd))
    except Unreadable:
        os.close(fd)
        raise
    return Source(fd, path)


def _regular_size(status: os.stat_result) -> int:
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable(f"is not a regular file (mode {stat.filemode(status.st_mode)})")
    if status.st_size == 0:
        raise Unreadable("is empty (0 bytes)")
    return status.st_size
