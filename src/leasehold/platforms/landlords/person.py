"""A landlord without an API: a person is told what to click, and says when it is done."""

from __future__ import annotations

from leasehold.model.lease.lease import Lease
from leasehold.model.platform.profile import Verb
from leasehold.platforms.contract import BoxState


class PersonLandlord:
    """Acts by telling; the meter counts on until the person says that it stopped."""

    simulated = False

    def act(self, lease: Lease, verb: Verb) -> BoxState:
        """Nothing to call: the steps are the act. A verb that ends no meter is done by being said."""
        return BoxState.GONE if verb.stops_all == "n/a" else BoxState.ASKED

    def poll(self, lease: Lease) -> BoxState:
        """No API to ask."""
        return BoxState.GONE if not lease.open else BoxState.UNKNOWN


def steps(lease: Lease, verb: Verb) -> list[str]:
    """Fill the verb's steps with this lease's words."""
    return [step.format(box=lease.box, lease=lease.id, root=lease.root) for step in verb.steps]
