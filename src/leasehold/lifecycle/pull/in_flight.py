"""Requests in flight, by connection; at the end a faster connection takes over what a slow one owes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from .jobs import Piece
from .range_writer import Landing

_SURE_AFTER_S = 0.3  # of an answer: before that its speed means little
_ANSWERS = 5  # a single one may have waited in memory behind the one before
_SILENT = 0.1  # bytes a second
_LEAST_BYTES = 64 << 10  # less is not worth a request
_WORTH = 3  # round trips: a request that ends sooner is waited for; a connection silent for longer is not


class Underway:
    """What each connection still owes and how fast it is. Any thread may call."""

    def __init__(self, first_speed: float, round_trip_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the assumed speed of an untried connection in bytes a second, and the round trip time."""
        self._first_speed = first_speed
        self._round_trip_s = round_trip_s
        self._clock = clock
        self._lock = threading.Lock()
        self._landings: dict[int, list[Landing]] = {}  # by connection, in request order
        self._answers: dict[int, deque[tuple[float, int]]] = {}  # ends of each one's last requests, and their bytes
        self._speeds: dict[int, float] = {}  # over these
        self._heard: dict[int, float] = {}  # when each connection last brought something

    def speed(self, number: int) -> float:
        """Return how many bytes a second a connection brings."""
        return self._speeds.get(number, self._first_speed)

    def begin(self, number: int, landing: Landing) -> None:
        """Record a request on a connection."""
        with self._lock:
            waiting = self._landings.setdefault(number, [])
            if not waiting:
                self._heard[number] = self._clock()
                self._answers[number] = deque([(self._clock(), 0)], _ANSWERS)
            waiting.append(landing)

    def heard(self, number: int) -> None:
        """Record that a connection has brought something."""
        self._heard[number] = self._clock()

    def end(self, number: int, landing: Landing) -> None:
        """Record that a request ended, complete or not; a connection answers in order, so the next begins now."""
        with self._lock:
            now, answers = self._clock(), self._answers[number]
            answers.append((now, landing.came_bytes))
            since, before = answers[0]
            self._speeds[number] = (sum(size for _, size in answers) - before) / max(now - since, 1e-3)
            self._landings[number].remove(landing)

    def relieve(self, number: int) -> list[Piece]:
        """Take over part of what the connection that will end last still owes, so that both end together."""
        with self._lock:
            owed = {other: sum(one.left_bytes for one in these) for other, these in self._landings.items()}
            owed.pop(number, None)
            slowest = max(owed, key=lambda other: owed[other] / self._pace(other), default=None)
            if slowest is None:
                return []
            keep = self._share(slowest, owed[slowest], self.speed(number))
            waiting = [one for one in self._landings[slowest] if one.left_bytes]
        if keep is None or not waiting:
            return []
        return waiting[-1].give_up(keep - sum(one.left_bytes for one in waiting[:-1]))

    def _share(self, number: int, left: int, ours: float) -> int | None:
        """Return how much of what a connection owes it should bring itself; None if all of it."""
        theirs, ours = self._pace(number), max(ours, 1.0)
        if theirs == _SILENT:
            return 0
        keep = int((self._round_trip_s + left / ours) / (1 / theirs + 1 / ours))
        return None if left / theirs < _WORTH * self._round_trip_s or left - keep < _LEAST_BYTES else keep

    def _pace(self, number: int) -> float:
        """Return a connection's current or last speed."""
        now = self._clock()
        if now - self._heard[number] > _WORTH * self._round_trip_s:
            return _SILENT
        elapsed_s = now - self._answers[number][-1][0]
        if elapsed_s < _SURE_AFTER_S or not self._landings[number]:
            return max(self.speed(number), 1.0)
        return max(self._landings[number][0].came_bytes / elapsed_s, 1.0)
