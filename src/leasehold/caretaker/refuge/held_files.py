"""Hold the files of a checkpoint open while they are copied: a trainer that deletes or replaces them does no harm.

The same bytes must be there from the first look to the last: sizes and times are compared, and every byte is hashed
twice, once for the manifest and once as it is sent.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from typing import Any, BinaryIO, Callable, Dict, Iterator

from leasehold.kit.files.paths import OpenedBelow, UnsafePath, join_checked
from leasehold.kit.files.sha256 import blocks, hash_blocks
from leasehold.kit.refuge.place import SourceChanged
from leasehold.kit.refuge.records import StateFile

from .found_states import Candidate, Row

MOST_OPEN = 400
_BLOCK_BYTES = 1 << 20

Meter = Callable[[int], None]


class HeldFiles:
    """The files of one candidate; of very many, each is opened when it is read."""

    def __init__(self, out: str, state: Candidate, meter: Meter, most_open: int = MOST_OPEN) -> None:
        self._out, self._state, self._meter = out, state, meter
        self._fds: Dict[str, int] = {}
        try:
            if len(state.rows) <= most_open:
                with OpenedBelow(self._root) as folder:
                    for row in state.rows:
                        self._fds[row[0]] = folder.open(row[0])[0]
            self.check()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "HeldFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files."""
        while self._fds:
            os.close(self._fds.popitem()[1])

    def check(self) -> None:
        """Raise SourceChanged if a file is not the one that was seen, or was written to since."""
        for row in self._state.rows:
            fd = self._fds.get(row[0])
            with _changed(row[0]):
                info = os.fstat(fd) if fd is not None else os.lstat(join_checked(self._root, row[0]))
            _same(row, info)

    def hashed(self, row: Row) -> StateFile:
        """Read a file and return its hash."""
        with self.open(row[0]) as file, _changed(row[0]):
            size, sha256 = hash_blocks(blocks(file.read))
        if size != row[1]:
            raise SourceChanged("%s has %d bytes now, it had %d" % (row[0], size, row[1]))
        return StateFile(row[0], size, sha256)

    def open(self, path: str) -> BinaryIO:
        """Open a file from its beginning; each reader has its own position."""
        fd = self._fds.get(path)
        if fd is not None:
            return _buffered(_Reader(fd, False, self._meter))
        row = next(one for one in self._state.rows if one[0] == path)
        with _changed(path), OpenedBelow(self._root) as folder:
            fd, info = folder.open(path)
        try:
            _same(row, info)
        except SourceChanged:
            os.close(fd)
            raise
        return _buffered(_Reader(fd, True, self._meter))

    @property
    def _root(self) -> str:
        return os.path.join(self._out, self._state.root) if self._state.root else self._out


class _Reader(io.RawIOBase):
    """Reads at its own position, so that a descriptor may have several readers."""

    def __init__(self, fd: int, owned: bool, meter: Meter) -> None:
        self._fd, self._owned, self._meter, self._at = fd, owned, meter, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: os.fstat(self._fd).st_size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = os.pread(self._fd, len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        self._meter(len(data))
        return len(data)

    def close(self) -> None:
        if not self.closed and self._owned:
            os.close(self._fd)
        super().close()


def _buffered(raw: io.RawIOBase) -> BinaryIO:
    return io.BufferedReader(raw, _BLOCK_BYTES)


@contextlib.contextmanager
def _changed(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, UnsafePath) as error:
        raise SourceChanged("%s: %s" % (path, error)) from None


def _same(row: Row, info: os.stat_result) -> None:
    now = (info.st_size, info.st_mtime_ns, info.st_ino)
    if not stat.S_ISREG(info.st_mode) or now != row[1:]:
        raise SourceChanged("%s was written to, or replaced" % row[0])
