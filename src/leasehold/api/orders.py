"""The orders that callers pass to the verbs, and the results that they get back."""

from leasehold.lifecycle.records.orders import (
    AdoptOrder,
    BoxOrder,
    BoxWord,
    DiskOrder,
    DownOrder,
    Evacuation,
    MoveOrder,
    PullOutcome,
    RentOptions,
    RunOrder,
    RunOutcome,
    evacuation_from,
)
from leasehold.lifecycle.states.states_brought import HOME_WORDS, OutOfReach, StatesBrought

__all__ = [
    "HOME_WORDS",
    "AdoptOrder",
    "BoxOrder",
    "BoxWord",
    "DiskOrder",
    "DownOrder",
    "Evacuation",
    "OutOfReach",
    "PullOutcome",
    "MoveOrder",
    "RentOptions",
    "RunOrder",
    "RunOutcome",
    "StatesBrought",
    "evacuation_from",
]
