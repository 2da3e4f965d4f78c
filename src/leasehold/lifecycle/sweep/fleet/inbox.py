"""What a coordinator hears: one thread decides, many ask and follow, and each tells it by a queue."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import replace

from leasehold.lifecycle.home.home import Home

from .member import Member

Then = Callable[[Member], None]


class Hearing:
    """A queue of what is to be done once the coordinator has time, each about one member."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._told: queue.Queue[tuple[Member, Then]] = queue.Queue()

    def tell(self, member: Member, then: Then) -> None:
        """Have something done by the coordinator; any thread may."""
        self._told.put((member, then))

    def hear(self, wait_s: float) -> None:
        """Do all that was told meanwhile; wait a moment if nothing was."""
        with contextlib.suppress(queue.Empty):
            member, then = self._told.get(timeout=wait_s)
            while True:
                then(member)
                member, then = self._told.get_nowait()

    def aside(self, member: Member, do: Callable[[Home], Then], name: str = "aside") -> None:
        """Do something slow in a thread with a ledger of its own; what it returns is done when it is heard."""

        def work() -> None:
            home = replace(self._home)
            try:
                self.tell(member, do(home))
            except BaseException as error:  # noqa: BLE001 - the thread's boundary: raised where it is seen
                self.tell(member, _raising(error))
            finally:
                home.ledger.close()

        threading.Thread(target=work, daemon=True, name=f"{name} {member.box.name}").start()


def _raising(error: BaseException) -> Then:
    def again(_: Member) -> None:
        raise error

    return again
