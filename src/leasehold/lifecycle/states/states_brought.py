"""What a pull of states brought, for screens and programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leasehold.lifecycle.pull.list_reader import LeftOut
    from leasehold.model.run.at_home import StateAtHome

HOME_WORDS = "home is a refuge only while this machine runs: what is saved while it is off, or asleep, is not here"


@dataclass(frozen=True)
class StatesBrought:
    """What a pull of states brought: of each cell the newest whole state here, and what was passed over, and why."""

    run: str
    state: str
    states: tuple[StateAtHome, ...]
    new: tuple[str, ...] = ()  # cells of which a newer state came
    left: tuple[LeftOut, ...] = ()
    lacking: tuple[str, ...] = ()  # unfinished cells of which no state is here

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        left = [vars(one) for one in self.left]
        return {**vars(self), "states": [one.as_dict() for one in self.states], "left": left}
