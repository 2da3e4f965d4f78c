"""What a stage tells whoever watches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Note:
    """One thing worth saying: a kind that programs can match, a line that people can read."""

    kind: str
    text: str
    data: dict[str, Any] = field(default_factory=dict)


Report = Callable[[Note], None]


def silent(note: Note) -> None:
    """Tell nobody."""
