"""How long to wait for a silent box, and where to report the wait: the limits of one command.

A command that sets nothing waits as long as the connection lives, and reports nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from leasehold.errors import LinkError

FIRST_WORD_S = 30.0
ANSWER_S = 120.0
BULK_S = 600.0
TICK_S = 0.5
_TOLD_AFTER_S = 3.0
_TOLD_EVERY_S = 5.0
LONGER = "--wait S waits longer; look at the provider's console: power, balance, preemption"


class _Spacing:
    """When a wait for each box was last reported: of several connections that wait for one box, only one reports."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._lock = threading.Lock()

    def is_due(self, box: str) -> bool:
        """Return whether to report now, and if so count that as a report."""
        with self._lock:
            now = time.monotonic()
            due = now - self._last.get(box, 0.0) >= _TOLD_EVERY_S
            if due:
                self._last[box] = now
            return due


class WaitLimits:
    """The limits of one command: how long until a box's first answer, and how long between answers."""

    def __init__(
        self,
        first_word_s: float = float("inf"),
        answer_s: float = float("inf"),
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.first_word_s = first_word_s
        self.answer_s = answer_s
        self._tell = tell
        self._spacing = _Spacing()

    @classmethod
    def of_command(cls, wait_s: float | None, tell: Callable[[str], None], *, bulk: bool = False) -> WaitLimits:
        """Return the limits of a command; None takes the defaults. Bulk: the box reads much before it answers."""
        if wait_s is not None:
            return cls(wait_s, wait_s, tell)
        return cls(FIRST_WORD_S, BULK_S if bulk else ANSWER_S, tell)

    @property
    def bounded(self) -> bool:
        """Return whether the command set a limit."""
        return self.first_word_s < float("inf")

    def report(self, box: str, text: str) -> None:
        """Report a wait for a box, unless one was reported just now."""
        if self._tell is not None and self._spacing.is_due(box):
            self._tell(text)


ENDLESS = WaitLimits()


class Waiting:
    """One wait for a box's next answer: shown on the screen now and then, and ended when the command's time is over."""

    def __init__(self, limits: WaitLimits, box: str, what: str, limit_s: float) -> None:
        """Start; what is awaited follows the words "waiting for", limit_s may be infinite."""
        self._limits = limits
        self._box = box
        self._what = what
        self._limit_s = limit_s
        self._since = time.monotonic()

    def look(self, heard: float = 0.0) -> None:
        """Report, when that is due, how long the box has been silent."""
        silent_s = self._silent_s(heard)
        if silent_s >= _TOLD_AFTER_S:
            limit = f" of at most {self._limit_s:g} s" if self._limit_s < float("inf") else ""
            text = f"waiting for {self._what} of {self._box}: silent for {silent_s:.0f} s{limit}"
            self._limits.report(self._box, text)

    def require(self, heard: float = 0.0) -> None:
        """Raise LinkError once the silence is too long."""
        if self._silent_s(heard) >= self._limit_s:
            what = f"waited for {self._what} of {self._box}"
            raise LinkError("link.timeout", f"no answer within {self._limit_s:g} s", seen=what, hint=LONGER)

    def _silent_s(self, heard: float) -> float:
        return time.monotonic() - max(self._since, heard)
