"""A curve: one figure of a run over time, as it is drawn and written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Point = tuple[float, float | None]  # unix seconds, value; None where it was no number


@dataclass(frozen=True)
class Curve:
    """One line of a picture. Curves of one panel share an axis."""

    panel: str  # what was asked for: loss, gpu, mem …
    name: str  # which line of it: card 0, /data …
    unit: str
    points: tuple[Point, ...]
    top: float | None = None  # where the axis ends by nature, such as 100 %

    def as_dict(self) -> dict[str, Any]:
        """Spell for --json."""
        return {"panel": self.panel, "name": self.name, "unit": self.unit, "points": [list(one) for one in self.points]}
