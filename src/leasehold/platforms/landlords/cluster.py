"""A cluster whose objects are a run's box: the pods go first, and the volume by an act of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from leasehold.errors import LeaseholdError
from leasehold.model.lease.lease import Lease
from leasehold.model.platform.profile import Verb
from leasehold.platforms.contract import BoxState

DELETES_STORAGE = "delete-storage"


@dataclass
class ClusterLandlord:
    """Deletes what a run has on a cluster, and asks the cluster what is left."""

    remove_pods: Callable[[], None]
    remove_volume: Callable[[], None]
    look: Callable[[], BoxState]  # raises where the cluster does not answer
    simulated: bool = False

    def act(self, lease: Lease, verb: Verb) -> BoxState:
        """Carry out the verb. Idempotent: what is gone already counts as deleted."""
        try:
            self.remove_pods()
            if verb.kind == DELETES_STORAGE:
                self.remove_volume()
        except LeaseholdError:
            return BoxState.UNKNOWN
        return self.poll(lease)

    def poll(self, lease: Lease) -> BoxState:
        """Return what the cluster says is left: GONE without a volume, PARKED with only that, else HELD."""
        try:
            return self.look()
        except LeaseholdError:
            return BoxState.UNKNOWN
