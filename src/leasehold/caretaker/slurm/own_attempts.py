"""Attempts whose trainers are the task's own children: Slurm ends what outlives the task, so no keeper is needed.

A keeper exists to see the exit of a trainer whose caretaker died, and to respawn that. In a task both die
together, and Slurm starts the task anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict

from leasehold.caretaker.attempt.keeper import Attempt, Kept, begin, end
from leasehold.caretaker.supervisor.attempts import Attempts
from leasehold.kit.run.run_state import CellState, RunState

if TYPE_CHECKING:
    import resource


class OwnAttempts(Attempts):
    """Starts trainers itself, and writes their exit records."""

    def __init__(self, *known: Any) -> None:
        super().__init__(*known)
        self._kept: Dict[int, Kept] = {}

    def spawn_keeper(self, name: str, cell: CellState, before_exec: Callable[[], None]) -> None:
        """Act as the parent of an attempt."""
        self._spawns[name, cell.attempt] = self._spawns.get((name, cell.attempt), 0) + 1
        what = Attempt(name, cell.attempt, cell.stage, cell.cards)
        kept = begin(self.folder, self.plan, what, before_exec)
        if kept is not None:
            self._kept[kept.pid] = kept
            self.keepers[kept.pid] = name

    def reaped(self, run: RunState, pid: int, status: int, usage: "resource.struct_rusage") -> None:
        """Write the exit record of a trainer; errands are children too, and report for themselves."""
        kept = self._kept.pop(pid, None)
        if kept is not None:
            del self.keepers[pid]
            end(self.folder, kept, status, usage)
