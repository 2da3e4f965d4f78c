"""Read back what was written, from the disk where the system allows it, with retries for slow shared mounts.

A network disk may show a new file, or its size, a while after it was written; and a plain read may be answered from
memory, which proves nothing about the disk.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from functools import partial
from typing import Callable, Iterator, Union

from leasehold.kit.files.sha256 import blocks, hash_blocks

_BLOCK_BYTES = 1 << 20
LAG_S = 30.0  # how late a shared mount may show what was written to it
_FIRST_PAUSE_S = 0.05
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_DIRECT = getattr(os, "O_DIRECT", 0) if hasattr(os, "readv") else 0

Tick = Callable[[int], None]


def size_of(path: str) -> int:
    """Return a file's size as its folder shows it; -1 when it is not there."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return -1


def wait_for(holds: Callable[[], bool], lag_s: float) -> bool:
    """Check repeatedly, at growing intervals, until it holds or the mount's lag can no longer be the reason."""
    deadline = time.monotonic() + lag_s
    pause_s = _FIRST_PAUSE_S
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 2.0)
    return True


def sha256_of(path: str, tick: Tick) -> str:
    """Hash a file, bypassing the page cache where possible; return a reason instead when it cannot be read."""
    try:
        return hash_blocks(_blocks(path), each=lambda block: tick(len(block)))[1]
    except OSError as error:
        return "unreadable: %s" % error


def forget_cached(fd: int) -> None:
    """Drop cached pages, where the system can, so that the next read comes from the disk."""
    with contextlib.suppress(OSError, AttributeError):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def _blocks(path: str) -> Iterator[Union[bytes, memoryview]]:
    direct = _open_direct(path)
    if direct is None:
        yield from _cached_blocks(path, 0)
        return
    done = 0
    with mmap.mmap(-1, _BLOCK_BYTES) as aligned, memoryview(aligned) as view:
        try:
            while True:
                try:
                    count = os.readv(direct, [aligned])
                except OSError:  # some filesystems accept the flag and then refuse the last, unaligned block
                    break
                if not count:
                    return
                done += count
                with view[:count] as part:
                    yield part
        finally:
            os.close(direct)
    yield from _cached_blocks(path, done)


def _open_direct(path: str) -> Union[int, None]:
    if not _DIRECT:
        return None
    try:
        return os.open(path, os.O_RDONLY | _NO_FOLLOW | _DIRECT)
    except OSError:  # not every filesystem supports it; the next open shows whether the file itself can be read
        return None


def _cached_blocks(path: str, offset: int) -> Iterator[bytes]:
    fd = os.open(path, os.O_RDONLY | _NO_FOLLOW)
    try:
        forget_cached(fd)
        os.lseek(fd, offset, os.SEEK_SET)
        yield from blocks(partial(os.read, fd))
    finally:
        os.close(fd)
