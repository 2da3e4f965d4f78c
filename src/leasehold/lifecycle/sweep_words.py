"""Journal events of sweeps and clusters, as a person would say them."""

from __future__ import annotations

from typing import Any


def _names(event: dict[str, Any]) -> str:
    cells = [str(name) for name in event.get("cells") or []]
    return f"{len(cells)} cells: {', '.join(cells[:5])}{' …' if len(cells) > 5 else ''}"


def _seen(event: dict[str, Any]) -> str:
    tasks, why = event.get("tasks") or {}, event.get("why")
    state = str(event.get("state", "")).lower().replace("_", " ")
    which = next(iter(tasks), "") if len(tasks) == 1 else f"{len(tasks)} cells"
    return f"Slurm: {which} {state}" + (f": {why}" if why else "")


SWEEP_TELLERS: dict[str, Any] = {
    "submitted": lambda event: f"submitted {event.get('count')} cells to Slurm as job array {event.get('job')}",
    "tasks_seen": _seen,
    "cells_added": lambda event: f"took up {_names(event)}",
    "cells_released": lambda event: f"gave back {_names(event)}",
}
