"""Progress messages from a stage to its observer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Note:
    """One message: a kind that programs can match, a line that people can read."""

    kind: str
    text: str
    data: dict[str, Any] = field(default_factory=dict)


Report = Callable[[Note], None]


def silent(note: Note) -> None:
    """Discard the note."""
