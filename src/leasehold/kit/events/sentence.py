"""What one kind of event says: a line for a screen, and other words for a notice where it needs them."""

from __future__ import annotations

from typing import Any, Callable, List, Mapping, NamedTuple, Optional

from leasehold.kit.tables.topics import DEFAULT

MAIN = "main"  # the one cell of a plain job

Event = Mapping[str, Any]
Words = Callable[[Event], str]


class Sentence(NamedTuple):
    """How one kind of event is shown and notified."""

    line: Words
    topic: str = ""  # of its notice; without one nobody is notified
    priority: str = DEFAULT
    notice: Optional[Words] = None  # left out, it is the line
    subject: str = "cell"  # the field that tells two notices of one kind apart


def whose(event: Event) -> str:
    """Name the cell in front of a line; the only cell of a plain run is not named."""
    return "" if event.get("cell") in (None, MAIN) else "%s: " % event["cell"]


def listed(event: Event, key: str) -> List[Any]:
    """Read a list; a field of an untrusted box may be something else."""
    value = event.get(key)
    return value if isinstance(value, list) else []


def number(event: Event, key: str) -> float:
    """Read a number that is not negative; a field of an untrusted box may be something else."""
    value = event.get(key)
    return float(value) if isinstance(value, (int, float)) and value >= 0 else 0.0


def after(mark: str, text: Any) -> str:
    """Put a mark before text; without text there is no mark."""
    return mark + str(text) if text else ""


def some(items: List[Any], most: int) -> str:
    """List the first few."""
    return ", ".join(str(item) for item in items[:most]) + (" …" if len(items) > most else "")
