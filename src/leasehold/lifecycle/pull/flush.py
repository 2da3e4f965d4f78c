"""Flush arrived data to the disk: a receipt must not outlive the bytes that it attests."""

from __future__ import annotations

import os
import threading

from leasehold.lifecycle.pull.files.incoming_file import Coming

from .scheduler import Desk

_SYNC_EACH = 64  # files; beyond it one sync of their filesystem is cheaper
_AHEAD_BYTES = 48 << 20


class Flushing:
    """Starts the write-back while the rest is still arriving, so that the final wait is short."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._begun_bytes = desk.home_bytes
        self._ahead: threading.Thread | None = None
        self._failed: OSError | None = None  # the kernel reports a lost write once: a second fsync would report success

    def step(self) -> None:
        """Start a write-back, if there is much to write and none is running; large files bypassed the cache."""
        came = self._desk.home_bytes
        if came - self._begun_bytes < _AHEAD_BYTES or (self._ahead is not None and self._ahead.is_alive()):
            return
        landed = next((file for file in self._desk.files if file.proved), None)
        if landed is None or not _many(self._desk.files):
            return
        self._begun_bytes = came
        self._ahead = threading.Thread(target=self._sync_ahead, args=(landed.target,), daemon=True)
        self._ahead.start()

    def rest(self) -> None:
        """Wait until everything is on the disk."""
        if self._ahead is not None:
            self._ahead.join()
        if self._failed is not None:
            raise self._failed
        files = [file for file in self._desk.files if not file.skipped]
        if _many(files):
            _sync_disk_of(files[0].target)
        elif len(files) == 1:
            _sync_one(files[0].target)
        elif files:
            from concurrent.futures import ThreadPoolExecutor  # imports logging: 8 ms

            with ThreadPoolExecutor(4) as pool:
                list(pool.map(_sync_one, [file.target for file in files]))

    def _sync_ahead(self, path: str) -> None:
        try:
            _sync_disk_of(path)
        except OSError as error:
            self._failed = error


def _many(files: list[Coming]) -> bool:
    return len(files) > _SYNC_EACH and hasattr(os, "sync")


def _sync_disk_of(path: str) -> None:
    """Write back one filesystem; skip a mount of the user's that hangs elsewhere."""
    import ctypes

    fd = os.open(path, os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    except AttributeError:  # not Linux
        os.sync()
    finally:
        os.close(fd)


def _sync_one(path: str) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
