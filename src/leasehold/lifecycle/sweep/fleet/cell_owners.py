"""Which box owns a cell: every box is asked, and of two that were given it one keeps it, the same for every home."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold.kit.run.run_state import RunState

_ORDER = ("running", "starting", "ended", "pending")  # of two that were given it at once, the further one


@dataclass(frozen=True)
class Claim:
    """A cell as one box has it; `given` grows with every giving, by any home."""

    place: str
    state: str
    given: int = 0


def owner(claims: Sequence[Claim]) -> Claim:
    """Choose the box whose result will count: a finished one first, else the box that was given the cell last."""
    finished = [claim for claim in claims if claim.state == "finished"]
    return min(finished or claims, key=lambda claim: (-claim.given, _further(claim.state), claim.place))


def claims_of(states: Mapping[str, RunState]) -> dict[str, list[Claim]]:
    """List who has each cell, by place; a cell on its way to another box is no longer there."""
    found: dict[str, list[Claim]] = {}
    for place, run in states.items():
        for name, cell in run.cells.items():
            if not cell.leaves:
                found.setdefault(name, []).append(Claim(place, cell.state, cell.given))
    return found


def owners(states: Mapping[str, RunState]) -> dict[str, str]:
    """Return the owner of every cell that some box has."""
    return {name: owner(claims).place for name, claims in claims_of(states).items()}


def sent_away(states: Mapping[str, RunState]) -> dict[str, str]:
    """Return the destinations of cells that none of these boxes has: the sender may have died before delivery."""
    here = owners(states)
    return {
        name: str(gone.get("to") or "")
        for run in states.values()
        for name, gone in run.left.items()
        if name not in here and gone.get("to")
    }


def next_giving(cells: Iterable[str], states: Iterable[RunState], now_unix: float) -> dict[str, int]:
    """Number a giving of these cells: higher than any seen, whatever this home's clock reads."""
    runs = list(states)
    return {
        name: max([int(now_unix), *(run.cells[name].given + 1 for run in runs if name in run.cells)]) for name in cells
    }


def _further(state: str) -> int:
    return _ORDER.index(state) if state in _ORDER else len(_ORDER)
