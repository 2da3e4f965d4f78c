"""The orders that callers pass to the verbs, and the results that they get back."""

from leasehold.lifecycle.records.orders import (
    AdoptOrder,
    BoxOrder,
    BoxWord,
    DiskOrder,
    DownOrder,
    Evacuation,
    RentOptions,
    RunOrder,
    RunOutcome,
)

__all__ = [
    "AdoptOrder",
    "BoxOrder",
    "BoxWord",
    "DiskOrder",
    "DownOrder",
    "Evacuation",
    "RentOptions",
    "RunOrder",
    "RunOutcome",
]
