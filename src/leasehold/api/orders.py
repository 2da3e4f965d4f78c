"""What a caller asks for and gets back, as the verbs take and return it."""

from leasehold.lifecycle.records.orders import (
    AdoptOrder,
    BoxOrder,
    BoxWord,
    DiskOrder,
    DownOrder,
    Evacuation,
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
    "RunOrder",
    "RunOutcome",
]
