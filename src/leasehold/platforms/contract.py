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
        Moves,
        Observation,
        Power,
        Proofs,
        Ranges,
        RunReader,
        Uploads,
        Work,
    )


class BoxState(Enum):
    """The landlord's state of a box."""

    HELD = "held"
    GONE = "gone"
    PARKED = "parked"  # stopped, its disks kept; it can be started again
    ASKED = "asked"  # a person was asked to click and has not confirmed it yet
    UNKNOWN = "unknown"


class Landlord(Protocol):
    """Rents, lists, parks and releases boxes."""

    simulated: bool

    def act(self, lease: Lease, verb: Verb) -> BoxState:
        """Carry out the verb, or return what a person must do. Idempotent: a box that is gone counts as released."""

    def poll(self, lease: Lease) -> BoxState:
        """Return the platform's present state; UNKNOWN if it cannot be asked."""


class View(Protocol):
    """A place where a run can be observed: where it runs, or its copy at home. `with` closes it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None:
        """Close the connection; the runs continue. A second call does nothing."""

    @property
    def observe(self) -> RunReader:
        """Return the part that observes a run."""


class Engine(View, Protocol):
    """Runs work detached and observes it: what `lifecycle` needs in order to bring a run to its receipt."""

    @property
    def observe(self) -> Observation:
        """Return the part that observes runs and follows them."""

    @property
    def work(self) -> Work:
        """Return the part that starts runs and ends them."""

    @property
    def hold(self) -> Holding:
        """Return the part that settles which home holds a run."""

    @property
    def moves(self) -> Moves:
        """Return the part that moves a run's work from box to box."""

    @property
    def ranges(self) -> Ranges:
        """Return the part that reads files of a run."""

    @property
    def proof(self) -> Proofs:
        """Return the part that proves what a run left."""

    @property
    def uploads(self) -> Uploads:
        """Return the part that sends code and data."""

    @property
    def box(self) -> BoxReadings:
        """Return the part that reads the machine where runs run."""

    @property
    def checks(self) -> Checks:
        """Return the part that tests what a job needs."""

    @property
    def notes(self) -> DiskNotes:
        """Return the part that finds out who else sees a disk."""

    def round_trip_s(self) -> float:
        """Measure the round trip to the far end."""

    @property
    def heard_bytes(self) -> int:
        """Return how many bytes of answers have arrived, as transferred."""

    @property
    def lost(self) -> LinkError | None:
        """Return why no more requests can be sent, if so."""


class MachineEngine(Engine, Protocol):
    """An engine on a machine that we hold for a time: its disks, cards and restarts are managed too."""

    @property
    def care(self) -> Care:
        """Return the part that surveys disks and cards, and clears them."""

    @property
    def power(self) -> Power:
        """Return the part that turns the machine off, and continues runs after a restart."""
