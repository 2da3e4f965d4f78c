"""A box that can power itself off: the verb is carried out from inside, over the box's own channel."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leasehold.errors import LinkError
from leasehold.model.lease.lease import Lease
from leasehold.model.platform.profile import Verb
from leasehold.platforms.contract import BoxState


@dataclass
class InsideLandlord:
    """Asks the box to run its own shutdown. Whether it is off is not known here: silence proves nothing."""

    power_off: Callable[[Sequence[str]], None]  # raises LinkError if the box does not answer
    answers: Callable[[], bool]
    going_s: float = 60.0
    look_every_s: float = 2.0
    simulated: bool = False

    def act(self, lease: Lease, verb: Verb) -> BoxState:
        """Have the box power itself off and wait until it no longer answers; only the console shows that it is off."""
        try:
            self.power_off(verb.command)
        except LinkError:
            return BoxState.UNKNOWN
        deadline = time.monotonic() + self.going_s
        while time.monotonic() < deadline:
            time.sleep(self.look_every_s)
            if not self.answers():
                return BoxState.UNKNOWN  # a lost network, a crashed sshd and a powered-off box are silent alike
        return BoxState.HELD

    def poll(self, lease: Lease) -> BoxState:
        """Return UNKNOWN: only the console shows whether a silent box is off."""
        return BoxState.HELD if self.answers() else BoxState.UNKNOWN
