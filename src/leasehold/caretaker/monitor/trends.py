"""Predict when something that grows will be full: slopes over a short and a long time, of which the slower counts."""

from __future__ import annotations

from collections import deque
from typing import Deque, List, Optional, Tuple

Point = Tuple[float, float]  # seconds, amount

_SPACING_S = 30.0
_LONG_S = 3600.0
_SHORT_S = 600.0
_LEAST_S = 300.0  # of history before any prediction


class Trend:
    """The last hour of one amount, a point every half minute."""

    def __init__(self) -> None:
        self._points: Deque[Point] = deque(maxlen=int(_LONG_S / _SPACING_S))

    def add(self, at_s: float, amount: float) -> None:
        """Add a reading; a clock that went back starts a new history."""
        if self._points and at_s < self._points[-1][0]:
            self._points.clear()
        if not self._points or at_s - self._points[-1][0] >= _SPACING_S:
            self._points.append((at_s, amount))

    def left_s(self, amount: float, limit: float) -> Optional[float]:
        """Return the seconds until the limit at the present rate; None when the amount does not grow."""
        points = list(self._points)
        if len(points) < 3 or points[-1][0] - points[0][0] < _LEAST_S:
            return None
        recent = [point for point in points if points[-1][0] - point[0] <= _SHORT_S]
        # A checkpoint that is written and deleted is steep for minutes and flat over the hour.
        per_s = min(slope(points), slope(recent))
        if per_s <= 0:
            return None
        return max(0.0, limit - amount) / per_s


def slope(points: List[Point]) -> float:
    """Fit a line by least squares; its rise per second."""
    count = len(points)
    if count < 2:
        return 0.0
    mean_s = sum(at_s for at_s, _ in points) / count
    mean = sum(amount for _, amount in points) / count
    spread = sum((at_s - mean_s) ** 2 for at_s, _ in points)
    return sum((at_s - mean_s) * (amount - mean) for at_s, amount in points) / spread if spread else 0.0
