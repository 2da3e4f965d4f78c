"""What a pull of states brought, and what is known of a run whose box does not answer; for screens and programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leasehold.errors import LeaseholdError
    from leasehold.kit.refuge.place import Place
    from leasehold.kit.refuge.reading import Kept
    from leasehold.lifecycle.pull.list_reader import LeftOut
    from leasehold.model.run.at_home import ArtifactAtHome, StateAtHome

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


@dataclass(frozen=True)
class RefugeSeen:
    """One refuge as home sees it now: the newest state of each cell, or why it cannot be read."""

    spec: str
    where: str
    problem: str = ""
    kept: tuple[Kept, ...] = ()
    place: Place | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        states = [
            {"cell": one.state.cell, "state": one.id, "step": one.state.step, "made_unix": one.state.made_unix}
            for one in self.kept
        ]
        return {"refuge": self.spec, "where": self.where, "problem": self.problem, "states": states}


@dataclass(frozen=True)
class OutOfReach:
    """A run whose box does not answer: what is home, and what its refuges hold."""

    run: str
    state: str  # as last seen
    error: LeaseholdError
    artifacts: tuple[ArtifactAtHome, ...]
    states: tuple[StateAtHome, ...]
    refuges: tuple[RefugeSeen, ...]
    came: tuple[str, ...] = ()  # cells of which the newest state came from a refuge now
    place: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        return {
            "run": self.run, "state": self.state, "why": self.error.message, "place": self.place,
            "artifacts": [one.as_dict() for one in self.artifacts], "states": [one.as_dict() for one in self.states],
            "refuges": [one.as_dict() for one in self.refuges], "came": list(self.came),
        }  # fmt: skip
