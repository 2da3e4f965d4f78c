"""Compress only slow links with compressible data."""

from __future__ import annotations

import time
from collections.abc import Callable

_SLOW_BYTES_PER_S = 30e6  # of one connection, on the wire: above it compression costs more time than it saves
_SHRINKS_BELOW = 0.9
_ENOUGH_BYTES = 2 << 20  # bytes to measure on
_REQUESTS = 8  # requests sent uncompressed before compression is tried again


class Packing:
    """The compression choice of one connection. Any thread may call; a lost update costs nothing but time."""

    def __init__(self, heard_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Start from the bytes that the connection has brought so far."""
        self._clock = clock
        self._since = clock()
        self._heard = heard_bytes
        self._came = 0
        self._pause = 0

    def came(self, count: int) -> None:
        """Count bytes that arrived, after decompression."""
        self._came += count

    def wanted(self, heard_bytes: int) -> bool:
        """Return the choice for the next request, from the bytes that the connection has brought on the wire."""
        heard, came, now = heard_bytes - self._heard, self._came, self._clock()
        if self._pause:
            self._pause -= 1
            if self._pause:
                return False
            self._since, self._heard, self._came = now, heard_bytes, 0  # try again
        elif came >= _ENOUGH_BYTES:
            if heard >= _SHRINKS_BELOW * came or heard > _SLOW_BYTES_PER_S * (now - self._since):
                self._pause = _REQUESTS
            self._since, self._heard, self._came = now, heard_bytes, 0
        return not self._pause
