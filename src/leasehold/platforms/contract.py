"""Two contracts: landlords hold boxes, engines run work on them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol, Self

from leasehold.errors import LinkError
from leasehold.model.lease.lease import Lease
from leasehold.model.platform.profile import Verb

if TYPE_CHECKING:
    from .engine_parts import (
        BoxReadings,
        Care,
        Checks,
        DiskNotes,
        Holding,
        Observation,
        Power,
        Proofs,
        Ranges,
        RunReader,
        Uploads,
        Work,
    )


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


class View(Protocol):
    """A place where a run can be looked at: where it runs, or its copy at home. `with` closes it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None:
        """Close the connection; the runs go on. A second call does nothing."""

    @property
    def observe(self) -> RunReader:
        """Look at a run."""


class Engine(View, Protocol):
    """Runs work detached and observes it: what `lifecycle` needs in order to bring a run to its receipt."""

    @property
    def observe(self) -> Observation:
        """Look at runs and follow them."""

    @property
    def work(self) -> Work:
        """Start runs and end them."""

    @property
    def hold(self) -> Holding:
        """Settle which home holds a run."""

    @property
    def ranges(self) -> Ranges:
        """Read files of a run."""

    @property
    def proof(self) -> Proofs:
        """Prove what a run left."""

    @property
    def uploads(self) -> Uploads:
        """Bring code and data."""

    @property
    def box(self) -> BoxReadings:
        """Look at the place where runs run."""

    @property
    def checks(self) -> Checks:
        """Try out what a job needs."""

    @property
    def notes(self) -> DiskNotes:
        """Find out who else sees a disk."""

    def round_trip_s(self) -> float:
        """Measure how far the far end is."""

    @property
    def heard_bytes(self) -> int:
        """How many bytes of answers have come, as they travelled."""

    @property
    def lost(self) -> LinkError | None:
        """Why nothing can be asked any more, if so."""


class MachineEngine(Engine, Protocol):
    """An engine on a machine of our own for a time: its disks, cards and restarts are cared for too."""

    @property
    def care(self) -> Care:
        """Survey disks and cards, and clear them."""

    @property
    def power(self) -> Power:
        """Turn the machine off, and continue runs after a restart."""
