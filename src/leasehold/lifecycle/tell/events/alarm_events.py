"""What the box's journal says of alarms, as a person reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _raised(event: dict[str, Any]) -> str:
    word = "ALARM" if event.get("level") == "alarm" else "warning"
    lines = [f"{word}: {event.get('what')}", f"  seen: {event.get('seen')}", f"  hint: {event.get('hint')}"]
    return "\n".join(line for line in lines if not line.endswith(": "))


def _cleared(event: dict[str, Any]) -> str:
    where = f" {event['where']}" if event.get("where") else ""
    return f"over: {str(event.get('name')).replace('_', ' ')}{where} ({event.get('seen')})"


ALARM_TELLERS: dict[str, Callable[[dict[str, Any]], str]] = {"alarm_raised": _raised, "alarm_cleared": _cleared}
