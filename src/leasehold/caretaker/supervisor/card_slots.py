"""Assign cells to cards on this box: one at a time on a card, side by side on several."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json
from leasehold.kit.run.run_state import SEAL, CellState, RunState
from leasehold.kit.run.run_states import FAILED, FINISHED, STOPPED

from .stages import stage_of

_BUSY = ("starting", "running", "ended")
_PIN = "CUDA_VISIBLE_DEVICES"


class Places:
    """The groups of cards that cells are given, as many cards each as the job asks for; without cards, slots to run."""

    def __init__(self, plan: Dict[str, Any]) -> None:
        job = self._job = plan.get("job", {})
        self._each = int((job.get("gpu") or {}).get("count", 0))
        self._at_once = int(job.get("at_once") or 0)
        self._many = len(job.get("cells") or []) > 1
        self._pinned = _PIN in (job.get("env") or {})  # the user chose cards: cells run on them one after the other
        self._groups: Optional[List[str]] = None

    def count(self) -> int:
        """Return how many cells may run at once."""
        if not self._many:
            return 1
        if self._each and not self._pinned:
            return max(1, min(len(self.groups()), self._at_once or len(self.groups())))
        return max(1, self._at_once)

    def free(self, run: RunState) -> str:
        """Return cards that no busy cell has; nothing where cards are not assigned."""
        if not self._many or not self._each or self._pinned:
            return ""
        taken = {cell.cards for cell in run.cells.values() if self.has_place(cell)}
        return next((group for group in self.groups() if group not in taken), "")

    def has_place(self, cell: CellState) -> bool:
        """Return whether a cell occupies its slot; one whose results are only being read does not."""
        return cell.state in _BUSY and not (cell.state == "ended" and stage_of(self._job, cell) == SEAL)

    def groups(self) -> List[str]:
        """List the groups of cards; the driver is asked once, and only where a sweep needs cards."""
        if self._groups is None:
            cards = visible_cards()
            step = max(1, self._each)
            whole = range(0, len(cards) - step + 1, step)
            self._groups = [",".join(cards[start : start + step]) for start in whole]
        return self._groups


def in_order(run: RunState) -> List[Tuple[str, CellState]]:
    """List cells that are not done and stay: busy ones first, then the others in the roster's order."""
    done = (FINISHED, FAILED, STOPPED)
    open_cells = [(name, cell) for name, cell in run.cells.items() if cell.state not in done and not cell.leaves]
    return sorted(open_cells, key=lambda item: item[1].state not in _BUSY)


def visible_cards() -> List[str]:
    """Return the cards we may use, numbered as CUDA does."""
    named = os.environ.get(_PIN)
    if named is not None:
        return [word.strip() for word in named.split(",") if word.strip()]
    from leasehold.caretaker.gpu.nvidia_smi import overview

    return [str(card["index"]) for card in overview().gpus]


def hear_roster(folder: RunFolder, run: RunState, note: Callable[..., None]) -> bool:
    """Add cells that joined the sweep and release those that go elsewhere, if not begun; return whether any joined."""
    wish = read_json(folder.roster)
    if wish is None:
        return False
    added = [str(name) for name in wish.get("add") or [] if name not in run.cells or run.cells[name].leaves]
    if added:
        note("cells_added", cells=added)
    given = {str(name): stamp for name, stamp in (wish.get("given") or {}).items() if name in run.cells}
    if given:
        note("cells_given", given=given)
    to = {"to": str(wish["to"])} if wish.get("to") else {}
    unbegun = set(wish.get("release") or ())
    begun = set(wish.get("withdraw") or ())
    kept = {name: cell for name, cell in run.cells.items() if cell.state != FINISHED}
    released = [name for name, cell in kept.items() if _may_go(name, cell, unbegun, begun)]
    if released:
        note("cells_released", cells=released, **to)
    leaving = [name for name in kept if name in begun and name not in released and not kept[name].leaves]
    if leaving:
        note("cells_withdrawn", cells=leaving, **to)
    os.unlink(folder.roster)
    return bool(added)


def left_alone(folder: RunFolder) -> Dict[str, List[str]]:
    """Format for the journal which cells a resume skips; nothing where nobody gave any up."""
    cells = (read_json(folder.given_up) or {}).get("cells")
    return {"given_up": cells} if cells else {}


def _may_go(name: str, cell: CellState, unbegun: Set[str], begun: Set[str]) -> bool:
    """Return whether a cell can be released at once: it is not busy, and if it was begun, that is accepted."""
    if name in begun:
        return cell.state not in _BUSY
    return name in unbegun and cell.state == "pending" and not cell.attempt
