"""Judge a box's report on a run's health by the box's own predicate; silence is unknown, never success."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leasehold.kit.run.cell_health import DEAD, FAST_FINISHED, FINISHED, RUNNING, STALLED, STATES, UNKNOWN, Facts, judge
from leasehold.kit.run.continued import is_setback, say_began
from leasehold.kit.text.safe_text import one_line
from leasehold.model.job.cells import MAIN

STALE_BEAT_S = 30  # six heartbeats of a caretaker: an older report proves nothing about now

_TELLING = (STALLED, FAST_FINISHED, DEAD)
_REASON_CHARS = 400
_ALARMS = 20


def trouble(status: Mapping[str, Any]) -> str:
    """Return what is wrong with a run that has not failed, in one line; empty when nothing is known to be."""
    found = [_sick(status), *occupied_in(status.get("cells")), *(text for _, text in alarms_of(status.get("cells")))]
    return "; ".join(filter(None, found))[:_REASON_CHARS]


def alarms_of(cells: Any) -> list[tuple[str, str]]:
    """List the active alarms of trainings, as (cell, text); the untrusted box's text is bounded."""
    found = []
    for name, cell in cells.items() if isinstance(cells, dict) else ():
        listed = cell.get("alarms") if isinstance(cell, dict) else None
        for text in list(listed.values())[:_ALARMS] if isinstance(listed, dict) else ():
            found.append((one_line(str(name)), one_line(str(text))[:_REASON_CHARS]))
    return found[:_ALARMS]


def occupied_in(cells: Any) -> list[str]:
    """List the other processes that occupy the folders of waiting cells."""
    listed = list(cells.values()) if isinstance(cells, dict) else []
    whys = [cell.get("occupied") for cell in listed if isinstance(cell, dict)]
    if not any(whys):
        return []
    from leasehold.kit.events.run_events import occupied  # not needed for a quiet status

    return [one_line(occupied(why)) for why in whys if why][:_ALARMS]


def _sick(status: Mapping[str, Any]) -> str:
    said = status.get("health")
    if not isinstance(said, dict) or said.get("state") not in STATES:
        return ""
    expected = {"running": (RUNNING, UNKNOWN), "finished": (FINISHED,)}.get(str(status.get("state")), STATES)
    if said["state"] in expected or said["state"] not in _TELLING:
        return ""
    listed = said.get("evidence")
    evidence = ", ".join(str(item) for item in listed[:4]) if isinstance(listed, list) else ""
    return one_line(f"{said['state'].upper()}: {evidence}")[:_REASON_CHARS]


def setbacks_of(cells: Any) -> list[str]:
    """List the attempts that restarted below the progress reached before; the untrusted box's text is bounded."""
    found = []
    for name, cell in cells.items() if isinstance(cells, dict) else ():
        listed = cell.get("began") if isinstance(cell, dict) else None
        whose = "" if name == MAIN else f"{one_line(str(name))}: "
        for one in listed[:_ALARMS] if isinstance(listed, list) else ():
            if isinstance(one, dict) and is_setback(one):
                found.append(f"{whose}{say_began(one)}: did it load its checkpoint?")
    return found[:_ALARMS]


def warnings_of(cells: Mapping[str, Any]) -> list[str]:
    """List the cells that ended suspiciously soon or with an alarm; an untrusted box's figures may be no numbers."""
    found = [f"cell {name} ended under an alarm: {text}" for name, text in alarms_of(cells)]
    for name, cell in cells.items():
        fast = cell.get("fast") if isinstance(cell, dict) else None
        took, expected = (fast.get(key) for key in ("took_s", "expected_s")) if isinstance(fast, dict) else (None, None)
        if not isinstance(took, int | float) or not isinstance(expected, int | float):
            continue
        if judge(Facts(ended=True, code=0, sealed=True, took_s=took, expected_s=expected)).state == FAST_FINISHED:
            from leasehold.kit.events.failure_events import finished_fast

            found.append(finished_fast(one_line(str(name)), took, expected))
    return found
