"""How long a silent box is waited for, and who is told meanwhile: set once, by the command that this process is.

A command that sets nothing waits as long as the connection lives, and says nothing.
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
    """What the command that runs wants: how long until a box's first word, and how long for a word in between."""

    first_word_s: float = float("inf")
    answer_s: float = float("inf")
    tell: Callable[[str], None] | None = None


_current = Patience()
_told_unix: dict[str, float] = {}
_telling = threading.Lock()


def be(wait_s: float | None, tell: Callable[[str], None], *, bulk: bool = False) -> None:
    """Set it for this process; None takes the defaults. Bulk: much is read on the box before it says anything."""
    _current.first_word_s = FIRST_WORD_S if wait_s is None else wait_s
    _current.answer_s = (BULK_S if bulk else ANSWER_S) if wait_s is None else wait_s
    _current.tell = tell


def first_word_s(otherwise: float) -> float:
    """How long to wait for a box from which nothing was heard; a command that set nothing waits otherwise."""
    return min(otherwise, _current.first_word_s)


def answer_s(otherwise: float) -> float:
    """How long to wait for a box that was heard before."""
    return min(otherwise, _current.answer_s)


def bounded() -> bool:
    """Whether the command set a limit."""
    return _current.first_word_s < float("inf")


class Waiting:
    """One wait for a box's next word: told on the screen now and then, and ended when the command's time is over."""

    def __init__(self, box: str, what: str, limit_s: float) -> None:
        """Begin; what is awaited follows the words "waiting for", limit_s may be infinite."""
        self._box = box
        self._what = what
        self._limit_s = limit_s
        self._since = time.monotonic()

    def look(self, heard: float = 0.0) -> None:
        """Say, when that is due, how long the box has been silent."""
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
        """Several connections wait for the same box: one of them says so."""
        with _telling:
            now = time.monotonic()
            due = now - _told_unix.get(self._box, 0.0) >= _TOLD_EVERY_S
            if due:
                _told_unix[self._box] = now
            return due
