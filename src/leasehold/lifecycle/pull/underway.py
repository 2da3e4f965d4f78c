"""Requests that are on their way, by connection; at the end what a slow connection owes is brought by a quicker one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .desk import Piece
from .landing import Landing

_SURE_AFTER_S = 0.3  # of an answer: earlier its speed says little
_LEAST_BYTES = 64 << 10  # less is not worth a request
_WORTH = 3  # round trips: what ends sooner is waited for


class Underway:
    """What each connection still owes and how fast it is. Any thread may call."""

    def __init__(self, first_speed: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the bytes a second that an untried connection is taken to bring."""
        self._first_speed = first_speed
        self._clock = clock
        self._lock = threading.Lock()
        self._landings: dict[int, list[Landing]] = {}  # by connection, in the order they were asked for
        self._since: dict[int, float] = {}  # since when the first of them comes
        self._speeds: dict[int, float] = {}  # of each connection's last answer

    def speed(self, number: int) -> float:
        """Say how many bytes a second a connection brings."""
        return self._speeds.get(number, self._first_speed)

    def begin(self, number: int, landing: Landing) -> None:
        """Something was asked for by a connection."""
        with self._lock:
            waiting = self._landings.setdefault(number, [])
            if not waiting:
                self._since[number] = self._clock()
            waiting.append(landing)

    def end(self, number: int, landing: Landing) -> None:
        """It came, or will not: a connection's answers come one after the other, so the next one begins now."""
        with self._lock:
            now = self._clock()
            self._speeds[number] = landing.came_bytes / max(now - self._since[number], 1e-3)
            self._since[number] = now
            self._landings[number].remove(landing)

    def relieve(self, number: int, round_trip_s: float) -> list[Piece]:
        """Take over some of what the connection that will end last still owes, so that both end together."""
        with self._lock:
            owed = {other: sum(one.left_bytes for one in these) for other, these in self._landings.items()}
            owed.pop(number, None)
            slowest = max(owed, key=lambda other: owed[other] / self._pace(other), default=None)
            if slowest is None:
                return []
            theirs, ours, left = self._pace(slowest), max(self.speed(number), 1.0), owed[slowest]
            keep = (round_trip_s + left / ours) / (1 / theirs + 1 / ours)
            if left / theirs < _WORTH * round_trip_s or left - keep < _LEAST_BYTES:
                return []
            waiting = [one for one in self._landings[slowest] if one.left_bytes]
        if not waiting:  # the last of it came this moment
            return []
        return waiting[-1].give_up(int(keep) - sum(one.left_bytes for one in waiting[:-1]))

    def _pace(self, number: int) -> float:
        """How fast a connection is now, or was; one that has fallen silent is seen to be slow."""
        elapsed_s = self._clock() - self._since[number]
        if elapsed_s < _SURE_AFTER_S or not self._landings[number]:
            return max(self.speed(number), 1.0)
        return max(self._landings[number][0].came_bytes / elapsed_s, 1.0)
