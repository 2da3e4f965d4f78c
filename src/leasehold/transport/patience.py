"""How long to wait for a silent box, and where to report the wait: set once, by the command of this process.

A command that sets nothing waits as long as the connection lives, and reports nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from leasehold.errors import LinkError

FIRST_WORD_S = 30.0
ANSWER_S = 120.0
BULK_S = 600.0
TICK_S = 0.5
_TOLD_AFTER_S = 3.0
_TOLD_EVERY_S = 5.0
LONGER = "--wait S waits longer; look at the provider's console: power, balance, preemption"


@dataclass
class Patience:
    """The limits of the running command: how long until a box's first answer, and how long between answers."""

    first_word_s: float = float("inf")
    answer_s: float = float("inf")
    tell: Callable[[str], None] | None = None


_current = Patience()
_told_unix: dict[str, float] = {}
_telling = threading.Lock()


def be(wait_s: float | None, tell: Callable[[str], None], *, bulk: bool = False) -> None:
    """Set it for this process; None takes the defaults. Bulk: the box reads much before it answers."""
    _current.first_word_s = FIRST_WORD_S if wait_s is None else wait_s
    _current.answer_s = (BULK_S if bulk else ANSWER_S) if wait_s is None else wait_s
    _current.tell = tell


def first_word_s(otherwise: float) -> float:
    """Return how long to wait for a box that has not answered yet; a command that set nothing waits otherwise."""
    return min(otherwise, _current.first_word_s)


def answer_s(otherwise: float) -> float:
    """Return how long to wait for a box that answered before."""
    return min(otherwise, _current.answer_s)


def bounded() -> bool:
    """Return whether the command set a limit."""
    return _current.first_word_s < float("inf")


class Waiting:
    """One wait for a box's next answer: shown on the screen now and then, and ended when the command's time is over."""

    def __init__(self, box: str, what: str, limit_s: float) -> None:
        """Start; what is awaited follows the words "waiting for", limit_s may be infinite."""
        self._box = box
        self._what = what
        self._limit_s = limit_s
        self._since = time.monotonic()

    def look(self, heard: float = 0.0) -> None:
        """Report, when that is due, how long the box has been silent."""
        silent_s = self._silent_s(heard)
        if _current.tell is not None and silent_s >= _TOLD_AFTER_S and self._is_due():
            limit = f" of at most {self._limit_s:g} s" if self._limit_s < float("inf") else ""
            _current.tell(f"waiting for {self._what} of {self._box}: silent for {silent_s:.0f} s{limit}")

    def require(self, heard: float = 0.0) -> None:
        """Raise LinkError once the silence is too long."""
        if self._silent_s(heard) >= self._limit_s:
            what = f"waited for {self._what} of {self._box}"
            raise LinkError("link.timeout", f"no answer within {self._limit_s:g} s", seen=what, hint=LONGER)

    def _silent_s(self, heard: float) -> float:
        return time.monotonic() - max(self._since, heard)

    def _is_due(self) -> bool:
        """Return whether to report now: of several connections that wait for one box, only one does."""
        with _telling:
            now = time.monotonic()
            due = now - _told_unix.get(self._box, 0.0) >= _TOLD_EVERY_S
            if due:
                _told_unix[self._box] = now
            return due
