"""Withdraw a cell that was given to another box while this one was unreachable: end its attempt and release it."""

from __future__ import annotations

from typing import Any, Callable, Dict

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.run.run_state import RunState

from .attempts import Attempts
from .stop import Stopping

_GRACE_S = 30.0
_ALIVE = ("starting", "running")


class Withdrawal:
    """Cells being withdrawn, each pressed as `lease stop` would."""

    def __init__(self, folder: RunFolder, plan: Dict[str, Any], note: Callable[..., None]) -> None:
        self._folder = folder
        self._plan = plan
        self._note = note
        self._pressed: Dict[str, Stopping] = {}

    def step(self, run: RunState, attempts: Attempts, before_exec: Callable[[], None]) -> int:
        """Bring every leaving cell nearer to its end; return how many of them still have a slot."""
        alive = 0
        for name, cell in [(name, cell) for name, cell in run.cells.items() if cell.leaves]:
            if cell.state in _ALIVE:
                attempts.look(name, cell, before_exec)
            if cell.state == "running":
                presser = self._pressed.setdefault(name, Stopping(self._folder, self._plan, self._note))
                presser.press(name, cell, _GRACE_S)
            if cell.state in _ALIVE:
                alive += 1
                continue
            self._pressed.pop(name, None)
            self._note("cells_released", cells=[name], to=cell.leaves)
        return alive
