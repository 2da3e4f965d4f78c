"""Journal events of sweeps and clusters, as a person would say them."""

from __future__ import annotations

from typing import Any

from leasehold.kit.run.run_state import RunState
from leasehold.kit.text.safe_text import one_line


def _names(event: dict[str, Any]) -> str:
    cells = [str(name) for name in event.get("cells") or []]
    return f"{len(cells)} cells: {', '.join(cells[:5])}{' …' if len(cells) > 5 else ''}"


def _seen(event: dict[str, Any]) -> str:
    tasks, why = event.get("tasks") or {}, event.get("why")
    state = str(event.get("state", "")).lower().replace("_", " ")
    which = next(iter(tasks), "") if len(tasks) == 1 else f"{len(tasks)} cells"
    return f"Slurm: {which} {state}" + (f": {why}" if why else "")


def _submitted(event: dict[str, Any]) -> str:
    after = event.get("after")
    return f"submitted {event.get('count')} cells to Slurm as job array {event.get('job')}" + (
        f", to begin {after}" if after else ""
    )


def _lent(event: dict[str, Any]) -> str:
    cores, cards = event.get("cores"), event.get("cards")
    has = f"{cores} core{'s' * (cores != 1)}" + (f", {cards} GPU{'s' * (cards != 1)}" if cards else "")
    return f"{event.get('cell')}: Slurm gave it {has} on {event.get('node')} (task {event.get('task')})"


def say_waits(state: RunState) -> str:
    """Say why the cells of a run wait, in a line, where a cluster says it; empty where nothing waits."""
    waiting = [cell.waits for cell in state.cells.values() if cell.state == "pending" and cell.waits]
    if not waiting or state.terminal:
        return ""
    many = f"{len(waiting)} of {len(state.cells)} cells wait" if len(state.cells) > 1 else "it waits"
    return one_line(f"{many} in Slurm's queue: {waiting[0]}")[:400]


SWEEP_TELLERS: dict[str, Any] = {
    "submitted": _submitted,
    "task_lent": _lent,
    "tasks_seen": _seen,
    "cells_added": lambda event: f"took up {_names(event)}",
    "cells_released": lambda event: f"gave back {_names(event)}",
}
