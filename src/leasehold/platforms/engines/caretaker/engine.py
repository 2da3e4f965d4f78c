"""The caretaker engine: our own supervisor on the box, over one wire."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Self

from .file_requests import ProofRequests, RangeRequests
from .machine_requests import BoxRequests, CareRequests, CheckRequests, NoteRequests, PowerRequests
from .move_requests import MoveRequests
from .run_requests import HoldRequests, ObserveRequests, WorkRequests

if TYPE_CHECKING:
    from leasehold.errors import LinkError
    from leasehold.transport.wire import Wire

    from .upload_requests import UploadRequests


class CaretakerEngine:
    """Sends requests to the box's `serve` over an open wire, which it closes."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.work = WorkRequests(wire)
        self.observe = ObserveRequests(wire)
        self.hold = HoldRequests(wire)
        self.moves = MoveRequests(wire)
        self.ranges = RangeRequests(wire)
        self.proof = ProofRequests(wire)
        self.box = BoxRequests(wire)
        self.checks = CheckRequests(wire)
        self.notes = NoteRequests(wire)
        self.care = CareRequests(wire)
        self.power = PowerRequests(wire)

    @cached_property
    def uploads(self) -> UploadRequests:
        """Return the requests that send code and data; most commands send neither."""
        from .upload_requests import UploadRequests

        return UploadRequests(self.wire)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. A second call does nothing."""
        self.wire.close()

    def round_trip_s(self) -> float:
        """Measure the round trip to the box."""
        from .upload_requests import round_trip_s

        return round_trip_s(self.wire)

    @property
    def heard_bytes(self) -> int:
        """Return how many bytes of answers have arrived, as transferred."""
        return self.wire.heard_bytes

    @property
    def lost(self) -> LinkError | None:
        """Return why no more requests can be sent, if so."""
        return self.wire.lost
