"""Wait until no process writes in a cell's folders before a new attempt, and while its results are sealed.

What an attempt of ours left behind is ended. A writer from elsewhere is not ours to end: the cell waits, names it,
and continues when it is gone or a person called it harmless.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Set, Tuple

from leasehold.caretaker.process.child_answer import Errand, answer
from leasehold.caretaker.process.end_processes import end_listed
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files import journal
from leasehold.kit.run.run_state import CellState, fold

from .occupants import OURS, WRITES, of_cell, say

_LIMIT_S = 120.0  # /proc of a box with thousands of processes, under load
_AGAIN_S = 5.0
_GRACE_S = 5.0
_ALIVE = ("starting", "running")


class Clearing:
    """Tracks the processes in the way of each cell's next step."""

    def __init__(self, folder: RunFolder, plan: Dict[str, Any], note: Callable[..., None]) -> None:
        self.folder = folder
        self.note = note
        self._errands: Dict[str, Errand] = {}
        self._due: Dict[str, float] = {}
        self._ended: Set[Tuple[int, str]] = set()

    def step(self, name: str, cell: CellState, before_exec: Callable[[], None]) -> bool:
        """Return whether the way to a cell's next attempt is free; called every turn until it is."""
        if self.waits(name):
            return False
        errand = self._errands.setdefault(name, Errand(_LIMIT_S, before_exec))
        found = errand.step("occupants", self.folder.address, name)
        if found is None:
            return False
        del self._errands[name]
        return self.settle(name, cell, found)

    def settle(self, name: str, cell: CellState, found: Dict[str, Any]) -> bool:
        """Act on the findings: end what is ours, wait for what is not; return whether the way is free."""
        if "problem" in found:
            self._wait(name, cell, "whether anybody writes in its folders is unknown: %s" % found["problem"])
            return False
        ours = [(int(one["pid"]), str(one["started"])) for one in found[OURS]]
        if ours and not self._ended.issuperset(ours):
            self._ended.update(ours)
            self.note("strays_ended", cell=name, pids=[pid for pid, _ in ours])
            end_listed(ours, _GRACE_S)
            return False
        left: List[Dict[str, Any]] = found[OURS] + found[WRITES]
        if left:
            self._wait(name, cell, say(left), pids=[one["pid"] for one in left])
            return False
        if cell.occupied:
            self.note("occupied_over", cell=name)
        return True

    def waits(self, name: str) -> bool:
        """Return whether it is too early to look again."""
        return time.monotonic() < self._due.get(name, 0.0)

    def end(self) -> None:
        """End what is under way because the run is to stop."""
        for errand in self._errands.values():
            errand.end()
        self._errands.clear()

    def _wait(self, name: str, cell: CellState, why: str, **facts: Any) -> None:
        self._due[name] = time.monotonic() + _AGAIN_S
        if cell.occupied != why:
            self.note("occupied", cell=name, attempt=cell.attempt, why=why, **facts)


def occupants(folder: RunFolder, cell: str) -> int:
    """Answer {ours, writers} of a cell, in a child of the caretaker."""
    return answer(found_in(folder, cell))


def found_in(folder: RunFolder, cell: str) -> Dict[str, Any]:
    """Find the processes in the way of a cell, beside the trainers of others."""
    run = fold(journal.read_from(folder.journal, 0)[0])
    others = [one.pid for name, one in run.cells.items() if name != cell and one.state in _ALIVE and one.pid]
    return of_cell(folder, cell, others)
