"""The coordinator's inbox: one thread decides, many ask and follow, and each posts its findings to a queue."""

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
    """A queue of tasks for the coordinator, each about one member."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._told: queue.Queue[tuple[Member, Then]] = queue.Queue()

    def tell(self, member: Member, then: Then) -> None:
        """Queue a task for the coordinator; any thread may."""
        self._told.put((member, then))

    def hear(self, wait_s: float) -> None:
        """Run all queued tasks; wait a moment if there are none."""
        with contextlib.suppress(queue.Empty):
            member, then = self._told.get(timeout=wait_s)
            while True:
                then(member)
                member, then = self._told.get_nowait()

    def aside(self, member: Member, do: Callable[[Home], Then], name: str = "aside") -> None:
        """Run slow work in a thread with its own ledger; its result is handled when the coordinator reads it."""

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
