"""The transfer rate: reported about once a second, and limited to what a person allows."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from leasehold.model.run.note import Note, Report
from leasehold.model.values.units import say_bytes
from leasehold.model.values.wording import ago

_SAY_EVERY_S = 1.0
_WINDOW_S = 5.0


class Pace:
    """Counts arriving bytes. The rate covers the last seconds, so that a stall shows and a resumed part does not."""

    def __init__(self, report: Report, clock: Callable[[], float] = time.monotonic) -> None:
        self._report = report
        self._clock = clock
        self._lock = threading.Lock()
        self._marks: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._said_at = clock()
        self.fetched_bytes = 0  # over the wire, whether or not they were kept

    def add(self, count: int) -> None:
        """Count bytes that arrived."""
        with self._lock:
            self.fetched_bytes += count

    @property
    def rate(self) -> float:
        """Return the recent bytes a second."""
        with self._lock:
            now = self._clock()
            then, before = self._marks[0]
            return (self.fetched_bytes - before) / max(now - then, 1e-6)

    def tick(self, home_bytes: int, total_bytes: int, streams: int) -> None:
        """Record a sample, and report progress when it is due."""
        now = self._clock()
        with self._lock:
            if now - self._marks[-1][0] >= 0.2:
                self._marks.append((now, self.fetched_bytes))
            while len(self._marks) > 2 and now - self._marks[0][0] > _WINDOW_S:
                self._marks.popleft()
        if now - self._said_at < _SAY_EVERY_S:
            return
        self._said_at = now
        rate = self.rate
        eta_s = (total_bytes - home_bytes) / rate if rate > 1 else None
        left = f"{ago(eta_s)} left" if eta_s is not None else "nothing came for a while"
        ways = f" over {streams} connections" if streams > 1 else ""
        text = f"pulled {say_bytes(home_bytes)} of {say_bytes(total_bytes)}, {say_bytes(rate)}/s{ways}, {left}"
        data = {"bytes": home_bytes, "total": total_bytes, "bytes_per_s": int(rate), "eta_s": eta_s, "streams": streams}
        self._report(Note("pulling", text, data))


class Limiter:
    """Limits bytes a second over all streams together; 0 is no limit."""

    def __init__(
        self,
        bytes_per_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.bytes_per_s = bytes_per_s
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = 0.0

    def pass_through(self, count: int) -> None:
        """Wait until this many bytes may have come."""
        if self.bytes_per_s <= 0:
            return
        with self._lock:
            now = self._clock()
            self._free_at = max(self._free_at, now) + count / self.bytes_per_s
            pause = self._free_at - now
        if pause > 0:
            self._sleep(pause)
