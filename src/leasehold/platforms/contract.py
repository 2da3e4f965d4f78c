"""Two small contracts: landlords hold boxes, engines run work on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Protocol

from leasehold.model.lease.lease import Lease
from leasehold.model.platform.profile import Verb
from leasehold.model.run.plan import Plan


class BoxState(Enum):
    """What the landlord says of a box."""

    HELD = "held"
    GONE = "gone"
    PARKED = "parked"  # stopped, its disks kept; it can be started again
    ASKED = "asked"  # a person was told what to click and has not said that it is done
    UNKNOWN = "unknown"


class Landlord(Protocol):
    """Rents, lists, parks and releases boxes."""

    simulated: bool

    def act(self, lease: Lease, verb: Verb) -> BoxState:
        """Carry out the verb, or say what a person must do. Idempotent: a box that is gone counts as released."""

    def poll(self, lease: Lease) -> BoxState:
        """Say what the platform says now; UNKNOWN when it cannot be asked."""


class Engine(Protocol):
    """Starts work detached and observes it. Every call may be repeated; a lost link raises LinkError."""

    def start(self, plan: Plan, home: str, private: Mapping[str, Any]) -> dict[str, Any]:
        """Start the run or attach to it; the second call attaches. private: secret values and notice channels."""

    def resume(self, run: str, seq: int, home: str, private: Mapping[str, Any]) -> dict[str, Any]:
        """Continue an ended run if nothing happened since seq."""

    def look(self, run: str) -> dict[str, Any]:
        """Say what is true of the run now."""

    def events(self, run: str, offset: int, follow_s: float) -> Iterator[dict[str, Any]]:
        """Yield batches {events, offset} from a byte offset on."""

    def stop(self, run: str, wish: dict[str, Any]) -> dict[str, Any]:
        """Ask the run to end; a run that has ended stays as it is."""
