"""A rental: one box that this home asked a landlord's API for, from the intent to its end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

_LABEL = re.compile(r"lease-([0-9a-f]{6})-[0-9a-f]{10}\Z")


class RentalState(Enum):
    """How far a rental got, as this home knows it."""

    INTENDED = "intended"  # asked for, or about to be: whether a box was made is unknown
    HELD = "held"
    ABSENT = "absent"  # proven: no box was made
    ENDED = "ended"  # proven: the box is gone


@dataclass(frozen=True)
class Rental:
    """One intent to rent, and what became of it."""

    label: str  # the landlord's lists show it
    market: str
    platform: str
    state: RentalState
    asked_unix: float
    run: str = ""  # for which it was rented; empty: for none in particular
    price: str = ""
    spot: bool = False
    holding: str = ""  # the landlord's id
    box: str = ""
    lease: str = ""
    ended_unix: float = 0.0
    approval: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        return {**vars(self), "state": self.state.value}


def label_of(home_id: str, token: str) -> str:
    """Return the label of an intent: which home asked, and for what; ten hex digits tell intents apart."""
    return f"lease-{home_id[:6]}-{token[:10]}"


def home_of(label: str) -> str:
    """Return the beginning of the home id in a label; empty if Leasehold did not write it."""
    found = _LABEL.match(label)
    return found[1] if found else ""
