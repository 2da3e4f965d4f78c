"""Estimates of cell times: the job's stated costs, corrected by measured times of this and earlier sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from leasehold.ledger.store import Ledger

from .balance import measured

if TYPE_CHECKING:
    from leasehold.kit.run.run_state import CellState, RunState

_KIND = "cells_timed"
_HALF = 0.5  # share assumed left of a running cell when no cell was timed
_OVERRUN = 0.5  # a cell past its estimate is expected to need this share of its time so far again
_DONE = ("finished", "failed", "stopped")


class Estimates:
    """Costs of a sweep's cells, in seconds as soon as any cell was timed."""

    def __init__(self, costs: Mapping[str, float], took_s: Mapping[str, float]) -> None:
        self._costs = dict(costs)
        self._took_s = {name: seconds for name, seconds in took_s.items() if name in costs}
        self._found: dict[str, float] | None = None

    def timed(self, name: str, seconds: float) -> None:
        """Record a cell's measured time."""
        if seconds > 0 and name in self._costs:
            self._took_s[name] = seconds
            self._found = None

    @property
    def in_seconds(self) -> bool:
        """Return whether any cell was timed: until then, costs are only relative."""
        return bool(self._took_s)

    def all(self) -> dict[str, float]:
        """Estimate every cell."""
        if self._found is None:
            self._found = measured(self._costs, self._took_s)
        return self._found

    def left(self, run: RunState, now_unix: float) -> dict[str, float]:
        """Estimate the remaining time of each cell of a box; done cells need none."""
        costs = self.all()
        return {
            name: self._left(cell, costs.get(name, 0.0), now_unix)
            for name, cell in run.cells.items()
            if cell.state not in _DONE and not cell.leaves
        }

    def _left(self, cell: CellState, cost: float, now_unix: float) -> float:
        if cell.state != "running":
            return cost
        if not self._took_s:
            return cost * _HALF
        ran_s = max(0.0, now_unix - cell.started_unix)
        return cost - ran_s if ran_s < cost else ran_s * _OVERRUN


def waiting(run: RunState) -> list[str]:
    """List the cells that a box has not begun, in its order."""
    return [
        name for name, cell in run.cells.items() if cell.state == "pending" and not cell.attempt and not cell.leaves
    ]


def times_of(run: RunState) -> dict[str, float]:
    """Return the time of each finished cell, by its box's own clock."""
    return {
        name: cell.ended_unix - cell.started_unix
        for name, cell in run.cells.items()
        if cell.state == "finished" and 0 < cell.started_unix < cell.ended_unix
    }


def remember(ledger: Ledger, job: str, run: str, took_s: Mapping[str, float]) -> None:
    """Store measured cell times for the next sweep of this job."""
    rounded = {name: round(seconds, 2) for name, seconds in took_s.items()}
    if rounded and rounded.items() - recall(ledger, job).items():
        ledger.append(_KIND, run=run, job=job, took_s=rounded)


def recall(ledger: Ledger, job: str) -> dict[str, float]:
    """Read the stored times of this job's cells, the newest of each."""
    found: dict[str, float] = {}
    for event in ledger.events(kind=_KIND):
        if event.data.get("job") == job:
            found.update(event.data["took_s"])
    return found
