"""The text of one kind of event: a line for a screen, and different text for a notice if needed."""

from __future__ import annotations

from typing import Any, Callable, List, Mapping, NamedTuple, Optional

from leasehold.kit.tables.topics import DEFAULT

MAIN = "main"  # the one cell of a plain job

Event = Mapping[str, Any]
Words = Callable[[Event], str]


class Sentence(NamedTuple):
    """How one kind of event is shown and sent as a notice."""

    line: Words
    topic: str = ""  # of its notice; without one, no notice is sent
    priority: str = DEFAULT
    notice: Optional[Words] = None  # if omitted, the line is used
    subject: str = "cell"  # the field that tells two notices of one kind apart


def whose(event: Event) -> str:
    """Prefix a line with the cell's name; the only cell of a plain run is not named."""
    return "" if event.get("cell") in (None, MAIN) else "%s: " % event["cell"]


def listed(event: Event, key: str) -> List[Any]:
    """Return a list; a field from an untrusted box may be something else."""
    value = event.get(key)
    return value if isinstance(value, list) else []


def number(event: Event, key: str) -> float:
    """Return a number that is not negative; a field from an untrusted box may be something else."""
    value = event.get(key)
    return float(value) if isinstance(value, (int, float)) and value >= 0 else 0.0


def after(mark: str, text: Any) -> str:
    """Return the mark followed by text; empty if there is no text."""
    return mark + str(text) if text else ""


def some(items: List[Any], most: int) -> str:
    """Format the first few items."""
    return ", ".join(str(item) for item in items[:most]) + (" …" if len(items) > most else "")
