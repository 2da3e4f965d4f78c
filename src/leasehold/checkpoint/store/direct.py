"""Bypass the page cache: the disk is busy from the first byte, no core copies, the data set stays in memory."""

from __future__ import annotations

import errno
import mmap
import os
from typing import Iterator, Tuple

from leasehold.checkpoint.state.memory import scratch
from leasehold.kit.files.checkpoint_file import CHUNK_BYTES, PAGE_BYTES, chunk_spans

_PROBES = 16


def put_past_cache(fd: int, data: memoryview, at: int) -> None:
    """Write page-aligned memory at a page-aligned offset; through the cache if the filesystem cannot bypass it."""
    direct = at % PAGE_BYTES == 0 and _set_direct(fd, True)
    whole = len(data) - len(data) % PAGE_BYTES
    done = 0
    while done < len(data):
        if direct and done >= whole:
            direct = _set_direct(fd, False)
        piece = data[done : min(done + CHUNK_BYTES, whole if direct else len(data))]
        try:
            done += os.pwrite(fd, piece, at + done)
        except OSError as error:
            if not direct or error.errno != errno.EINVAL:
                raise
            direct = _set_direct(fd, False)
    if direct:
        _set_direct(fd, False)


class Arriving:
    """The data of a file while it is read into memory: iterate over the spans that have arrived, in order."""

    def __init__(self, fd: int, at: int, size: int) -> None:
        self._fd, self._at, self._size = fd, at, size
        # Cached data is mapped and copied once to its place. Data on disk is read: faster past the cache, and a bad
        # sector is then an error with a name; in mapped memory it would kill the process.
        self._cached = size == 0 or _in_cache(fd, at, size)
        buffer = mmap.mmap(fd, 0, access=mmap.ACCESS_COPY) if self._cached else scratch(size)
        self.data = memoryview(buffer)[at:] if self._cached else memoryview(buffer)[:size]
        self._whole = memoryview(buffer)

    def __iter__(self) -> Iterator[Tuple[int, int]]:
        """Yield where each chunk begins and ends, once it is in memory."""
        direct = not self._cached and self._at % PAGE_BYTES == 0 and _set_direct(self._fd, True)
        for begin, end in chunk_spans(self._size):
            if not self._cached:
                direct = self._read(begin, end, direct)
            yield begin, end

    def _read(self, begin: int, end: int, direct: bool) -> bool:
        while begin < end:
            stop = -(-end // PAGE_BYTES) * PAGE_BYTES if direct else end
            try:
                got = os.preadv(self._fd, [self._whole[begin:stop]], self._at + begin)
            except OSError as error:
                if not direct or error.errno != errno.EINVAL:
                    raise
                direct = _set_direct(self._fd, False)
                continue
            if not got:
                raise OSError(errno.EIO, "it ends at byte %d" % (self._at + begin))
            begin += got
        return direct


def _in_cache(fd: int, at: int, size: int) -> bool:
    """Check a few places without waiting for the disk; if the system cannot tell, a mapping serves both."""
    no_wait = getattr(os, "RWF_NOWAIT", 0)
    if not no_wait:
        return True
    for number in range(_PROBES):
        try:
            os.preadv(fd, [bytearray(1)], at + number * (size - 1) // (_PROBES - 1), no_wait)
        except OSError as error:
            return error.errno != errno.EAGAIN
    return True


def _set_direct(fd: int, wanted: bool) -> bool:
    """Switch direct I/O on or off for an open file; return whether it is on now."""
    bit = getattr(os, "O_DIRECT", 0)
    if not bit:
        return False
    import fcntl

    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | bit if wanted else flags & ~bit)
    except OSError:  # tmpfs, some network and FUSE filesystems
        return False
    return wanted
