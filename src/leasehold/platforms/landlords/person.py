"""A landlord without an API: a person is shown what to click, and confirms when it is done."""

from __future__ import annotations

from leasehold.model.lease.lease import Lease
from leasehold.model.platform.profile import Verb
from leasehold.platforms.contract import BoxState


class PersonLandlord:
    """Acts by instructing a person; the meter continues until the person confirms that it stopped."""

    simulated = False

    def act(self, lease: Lease, verb: Verb) -> BoxState:
        """Return ASKED: the person acts by the verb's steps. A verb that ends no meter is GONE at once."""
        return BoxState.GONE if verb.stops_all == "n/a" else BoxState.ASKED

    def poll(self, lease: Lease) -> BoxState:
        """Return the state of the lease without a query: there is no API."""
        return BoxState.GONE if not lease.open else BoxState.UNKNOWN


def steps(lease: Lease, verb: Verb) -> list[str]:
    """Fill in this lease's values in the verb's steps."""
    return [step.format(box=lease.box, lease=lease.id, root=lease.root) for step in verb.steps]
