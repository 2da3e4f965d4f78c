"""Visits to boxes that are silent, each by a thread of its own, until they answer or nobody waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from leasehold.errors import LeaseholdError
from leasehold.kit.failure.back_off import pause_after

from .member import Member

_PAUSES_S = (2.0, 4.0, 8.0, 15.0, 30.0)


class Visits:
    """Knocks at silent boxes and tells who answers."""

    def __init__(self, answers: Callable[[Member, Member], None], knock: Callable[[Member], None]) -> None:
        """Knock raises while nobody answers; answers gets the member that was visited, and a new one as it is now."""
        self._answers = answers
        self._knock = knock
        self._over = threading.Event()
        self._visited: set[str] = set()
        self._lock = threading.Lock()

    def begin(self, member: Member) -> None:
        """Visit a box from now on; one that is visited already is not visited twice."""
        with self._lock:
            if member.box.name in self._visited:
                return
            self._visited.add(member.box.name)
        threading.Thread(target=self._visit, args=(member,), daemon=True, name=f"visit {member.box.name}").start()

    def end(self) -> None:
        """Visit nobody any more."""
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
