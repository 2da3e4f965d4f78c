"""Find the newest state of each cell among the old box, the refuges and this home: by epoch, then by number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leasehold.errors import BoxError
from leasehold.kit.text.safe_text import one_line
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.records.boxes_of_run import attempts_here
from leasehold.lifecycle.records.sweep_parts import sweep_of
from leasehold.model.run.note import Note, Report

from .leave_old import Old
from .places import BoxDisk, Kept, Place, kept_from

Tell = Callable[[int], None]


def names_of(home: Home, run: str, cells: Sequence[str]) -> list[tuple[str, str]]:
    """List (run, cell) under which states of these cells may be kept: a sweep has one run on each of its boxes."""
    sweep = sweep_of(run)
    parts = [run]
    if sweep != run:
        parts += [
            record.run for record in books.runs(home.ledger) if record.run != run and sweep_of(record.run) == sweep
        ]
    return [(part, cell) for cell in cells for part in parts]


def in_places(
    home: Home, run: str, cells: Sequence[str], places: Sequence[Place], report: Report
) -> dict[str, list[Kept]]:
    """Return what the places keep of each cell, the newest first; a place that fails is reported."""
    found: dict[str, list[Kept]] = {cell: [] for cell in cells}
    names = names_of(home, run, cells)
    for place in places:
        kept, problem = place.kept(names)
        if problem:
            report(Note("warning", f"{place.where} (seen by {place.seen_by}) could not be searched: {problem}"))
        for one in kept:
            found.setdefault(one.state.cell, []).append(one)
    return {cell: sorted(kept, key=_age, reverse=True) for cell, kept in found.items() if cell in cells}


def on_disk(old: Old, run: str, cell: str, epoch: int, tell: Tell, report: Report) -> Kept | None:
    """Have the old box hash the newest state of a cell that loads there; one that is torn is reported."""
    if old.engine is None or old.seen is None or cell not in old.seen.get("cells", {}):
        return None
    if not old.seen["cells"][cell].get("attempt"):
        return None
    try:
        answer = old.engine.moves.left(run, cell, {"epoch": epoch, "box": old.box}, tell)
    except BoxError as error:
        report(Note("warning", f"{old.box}: what cell {cell} saved cannot be read: {error.message}"))
        return None
    for why in answer.get("torn") or ():
        report(Note("torn", f"{old.box}, cell {cell}: a newer state is torn and passed over: {one_line(str(why))}"))
    return kept_from(answer, BoxDisk(old.engine, old.box)) if answer.get("id") else None


def _age(kept: Kept) -> tuple[int, int, float]:
    """Order by epoch, then by step or place in the sequence; a clock only breaks a tie."""
    return kept.state.epoch, kept.state.number, kept.state.made_unix


def attempts_of(old: Old, cell: str) -> int | None:
    """Return how many attempts the cell had on the old box; None if it does not answer."""
    cells: Mapping[str, Any] = (old.seen or {}).get("cells", {})
    return attempts_here(cells[cell]) if cell in cells else None
