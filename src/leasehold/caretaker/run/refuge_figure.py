"""How much trained work has not left the box yet: the one figure that counts when the box is taken away."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from leasehold.kit.run.run_state import CellState, RunState
from leasehold.kit.run.run_states import FINISHED

Since = Callable[[str, float], float]  # a cell's trained seconds since a moment


def refuge_figure(run: RunState, since: Since, now_unix: float) -> Optional[Dict[str, Any]]:
    """Return what has left the box, and what would be lost with it; None where no refuge is meant."""
    if not run.refuge:
        return None
    cells = {name: cell for name, cell in run.cells.items() if cell.state != FINISHED}
    newest = {name: _newest(cell) for name, cell in cells.items()}
    made = {name: float(facts.get("made_unix") or 0.0) if facts else 0.0 for name, facts in newest.items()}
    found: Dict[str, Any] = {
        "places": list(run.refuge.get("places") or []),
        "home": bool(run.refuge.get("home")),
        "cells": len(cells),
        "copied": sum(facts is not None for facts in newest.values()),
        "lost_s": round(sum(since(name, made[name]) for name in cells), 1),
        "failed": _failed(list(cells.values())),
    }
    oldest = min((name for name in cells if newest[name]), key=lambda name: made[name], default="")
    facts = newest.get(oldest)
    if facts:
        found.update(place=facts["place"], step=facts.get("step"), age_s=round(max(0.0, now_unix - made[oldest]), 1))
    return found


def _newest(cell: CellState) -> Optional[Dict[str, Any]]:
    copies = [dict(facts, place=place) for place, facts in cell.refuge.items()]
    return max(copies, key=lambda facts: float(facts.get("made_unix") or 0.0), default=None)


def _failed(cells: List[CellState]) -> List[Dict[str, str]]:
    known = {place: facts for cell in cells for place, facts in cell.refuge_failed.items()}
    return [{"place": place, "class": str(facts.get("class", ""))} for place, facts in sorted(known.items())]
