"""Checked records over a stream that may cut, repeat or lose bytes, never end, or fall silent: `kubectl exec`.

Each record carries a checksum chained over all records before it, so a lost, repeated or changed byte ends the
stream instead of being read. Both ends send a beat while they have nothing to say; silence ends the stream too, and a
leaving end says so, because the end of the stream may never arrive.
"""

from __future__ import annotations

import io
import os
import select
import struct
import threading
import time
import zlib
from typing import Any, Callable, Iterable, Optional

HEADER = struct.Struct(">IBI")  # length, kind, checksum
DATA, BEAT, BYE = 1, 2, 3
MOST_BYTES = 256 << 10
BEAT_S = 8.0  # load balancers cut connections that are silent for a minute
SILENT_S = 40.0
_BLOCK_BYTES = 1 << 17


class StreamDamaged(OSError):
    """The stream lost, repeated or changed bytes, or fell silent."""


class CheckedWriter:
    """Writes records; any thread may call."""

    def __init__(self, write: Callable[[bytes], Any]) -> None:
        """Take a function that writes all of its bytes."""
        self._write = write
        self._lock = threading.Lock()
        self._sum = 0
        self._wrote_at = time.monotonic()
        self._closed = threading.Event()

    def send(self, parts: Iterable[Any]) -> None:
        """Send bytes."""
        for part in parts:
            view = memoryview(part)
            for start in range(0, len(view), MOST_BYTES):
                self._record(DATA, view[start : start + MOST_BYTES])

    def beat_for_ever(self, beat_s: float = BEAT_S) -> None:
        """Send a beat whenever nothing was sent for so long, until the stream is closed or breaks."""
        while not self._closed.wait(beat_s / 4):
            if time.monotonic() - self._wrote_at >= beat_s:
                try:
                    self._record(BEAT, b"")
                except (OSError, ValueError):
                    return

    def bye(self) -> None:
        """Say that nothing follows, without waiting for a stream that takes nothing. A second call does nothing."""
        if not self._closed.is_set():
            self._closed.set()
            if self._lock.acquire(timeout=0.2):  # else a writer is stuck in a dead stream
                try:
                    self._put(BYE, b"")
                except (OSError, ValueError):
                    pass
                finally:
                    self._lock.release()

    def _record(self, kind: int, payload: Any) -> None:
        with self._lock:
            self._put(kind, payload)

    def _put(self, kind: int, payload: Any) -> None:
        self._sum = _chained(self._sum, kind, payload)
        self._write(HEADER.pack(len(payload), kind, self._sum) + bytes(payload))
        self._wrote_at = time.monotonic()


class CheckedReader(io.RawIOBase):
    """Reads records; raises StreamDamaged where bytes are wrong, missing or overdue."""

    def __init__(self, descriptor: int, early: bytes = b"", silent_s: float = SILENT_S) -> None:
        """Read from a descriptor, after bytes of it that were read already."""
        super().__init__()
        self._from = descriptor
        self._raw = bytearray(early)
        self._silent_s = silent_s
        self._sum = 0
        self._ready = memoryview(b"")
        self._over = False
        self.problem: Optional[str] = None

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def fileno(self) -> int:
        """Return the descriptor below."""
        return self._from

    def readinto(self, buffer: Any) -> int:
        """Return checked bytes; 0 once the other end has said that it leaves."""
        while not self._ready and not self._over:
            self._next()
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _next(self) -> None:
        head = self._take(HEADER.size)
        length, kind, claimed = HEADER.unpack(head)
        if length > MOST_BYTES or kind not in (DATA, BEAT, BYE):
            raise self._damaged("no record where one must begin")
        payload = self._take(length)
        self._sum = _chained(self._sum, kind, payload)
        if claimed != self._sum:
            raise self._damaged("a record's checksum differs: bytes were lost, repeated or changed")
        self._over = kind == BYE
        if kind == DATA:
            self._ready = memoryview(payload)

    def _take(self, count: int) -> bytes:
        while len(self._raw) < count:
            readable, _, _ = select.select([self._from], [], [], self._silent_s)
            if not readable:
                raise self._damaged("nothing arrived for %g s" % self._silent_s)
            block = os.read(self._from, _BLOCK_BYTES)
            if not block:
                raise self._damaged("the stream ended without a word")
            self._raw += block
        taken = bytes(self._raw[:count])
        del self._raw[:count]
        return taken

    def _damaged(self, why: str) -> StreamDamaged:
        self._over = True
        self.problem = why
        return StreamDamaged(why)


def _chained(before: int, kind: int, payload: Any) -> int:
    return zlib.crc32(payload, zlib.crc32(b"%d %d " % (len(payload), kind), before))
