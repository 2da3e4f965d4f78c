"""Which box has a cell: every box is asked, and of two that were given it one keeps it, the same for every home."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold.kit.run.run_state import RunState

_ORDER = ("running", "starting", "ended", "pending")  # of two that were given it at once, the one that is further on


@dataclass(frozen=True)
class Claim:
    """A cell as one box has it; `given` grows with every giving, whoever gives."""

    place: str
    state: str
    given: int = 0


def owner(claims: Sequence[Claim]) -> Claim:
    """Choose whose result will count: a finished one before any other, else the box that was given it last."""
    finished = [claim for claim in claims if claim.state == "finished"]
    return min(finished or claims, key=lambda claim: (-claim.given, _further(claim.state), claim.place))


def claims_of(states: Mapping[str, RunState]) -> dict[str, list[Claim]]:
    """List who has each cell, by place; a cell that is on its way to another box is no longer there."""
    found: dict[str, list[Claim]] = {}
    for place, run in states.items():
        for name, cell in run.cells.items():
            if not cell.leaves:
                found.setdefault(name, []).append(Claim(place, cell.state, cell.given))
    return found


def owners(states: Mapping[str, RunState]) -> dict[str, str]:
    """Say for every cell that some box has which of them it is."""
    return {name: owner(claims).place for name, claims in claims_of(states).items()}


def sent_away(states: Mapping[str, RunState]) -> dict[str, str]:
    """Say where boxes sent cells that no box of these has: whoever sent them may have died before they came there."""
    here = owners(states)
    return {
        name: str(gone.get("to") or "")
        for run in states.values()
        for name, gone in run.left.items()
        if name not in here and gone.get("to")
    }


def next_giving(cells: Iterable[str], states: Iterable[RunState], now_unix: float) -> dict[str, int]:
    """Number a giving of these cells: later than any that was seen, whatever this home's clock says."""
    runs = list(states)
    return {
        name: max([int(now_unix), *(run.cells[name].given + 1 for run in runs if name in run.cells)]) for name in cells
    }


def _further(state: str) -> int:
    return _ORDER.index(state) if state in _ORDER else len(_ORDER)
