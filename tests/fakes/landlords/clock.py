"""Time that a test moves."""

from __future__ import annotations

START_UNIX = 1_790_000_000.0


class VirtualClock:
    """Seconds since 1970 that pass when a test says so; `clock()` reads them."""

    def __init__(self, now: float = START_UNIX) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds >= 0
        self.now += seconds
