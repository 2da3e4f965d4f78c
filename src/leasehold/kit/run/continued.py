"""Statements about an attempt after the first, on both ends: that it restarted, then what its counter showed."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

STARTED_AGAIN = "started again"
SAME_AGAIN = "same command again"  # whether it loads what it saved is up to the script, and seen from its steps
MOST_KEPT = 20


def is_setback(event: Mapping[str, Any]) -> bool:
    """Return whether an attempt began where the first one did, although an earlier one had got further."""
    began, first, reached = (_whole(event, key) for key in ("began", "first", "reached"))
    return began <= first < reached


def say_began(event: Mapping[str, Any]) -> str:
    """Describe where an attempt began, and how far earlier ones got; figures from an untrusted box may be missing."""
    unit = "epoch" if event.get("unit") == "epoch" else "step"
    began, reached = _whole(event, "began"), _whole(event, "reached")
    attempt, before = _whole(event, "attempt"), _whole(event, "before")
    if is_setback(event):
        said = "attempt %d began at %s %d although attempt %d had reached %d"
        return said % (attempt, unit, began, before, reached)
    if began < reached:
        said = "attempt %d continued at %s %d; attempt %d had reached %d"
        return said % (attempt, unit, began, before, reached)
    return "attempt %d continued at %s %d" % (attempt, unit, began)


def kept(before: List[Dict[str, Any]], event: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """Add the beginning that a journal event records to a cell's state."""
    names = ("attempt", "began", "first", "reached", "before", "unit")
    return [*before, {name: event.get(name) for name in names}][-MOST_KEPT:]


def _whole(event: Mapping[str, Any], key: str) -> int:
    value = event.get(key)
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e18 else 0
