"""Reconnection attempts to silent boxes, each in its own thread, until they answer or are no longer needed."""

from __future__ import annotations

import threading
from collections.abc import Callable

from leasehold.errors import LeaseholdError
from leasehold.kit.failure.back_off import pause_after

from .member import Member

_PAUSES_S = (2.0, 4.0, 8.0, 15.0, 30.0)


class Visits:
    """Tries silent boxes and reports those that answer."""

    def __init__(self, answers: Callable[[Member, Member], None], knock: Callable[[Member], None]) -> None:
        """Set the callbacks: knock raises while the box is silent; answers gets the member tried and its new state."""
        self._answers = answers
        self._knock = knock
        self._over = threading.Event()
        self._visited: set[str] = set()
        self._lock = threading.Lock()

    def begin(self, member: Member) -> None:
        """Try a box from now on; one that is already tried is not tried twice."""
        with self._lock:
            if member.box.name in self._visited:
                return
            self._visited.add(member.box.name)
        threading.Thread(target=self._visit, args=(member,), daemon=True, name=f"visit {member.box.name}").start()

    def end(self) -> None:
        """Stop all attempts."""
        self._over.set()

    def _visit(self, member: Member) -> None:
        tries = 1
        while not self._over.wait(pause_after(tries, _PAUSES_S)):
            tries += 1
            fresh = Member(member.box)
            try:
                self._knock(fresh)
            except LeaseholdError:
                continue
            with self._lock:
                self._visited.discard(member.box.name)
            self._answers(member, fresh)
            return
