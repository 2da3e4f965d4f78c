"""A curve: one figure of a run over time, as it is drawn and written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Point = tuple[float, float | None]  # unix seconds, value; None if it was not a number


@dataclass(frozen=True)
class Curve:
    """One line of a picture. Curves of one panel share an axis."""

    panel: str  # the requested figure: loss, gpu, mem …
    name: str  # the line within the panel: card 0, /data …
    unit: str
    points: tuple[Point, ...]
    top: float | None = None  # the natural end of the axis, such as 100 %
    title: str = ""  # the panel in plain words
    steps: tuple[float | None, ...] = ()  # the training's step at each point, of figures that go by steps

    @property
    def by_step(self) -> bool:
        """Return whether it can be drawn over steps: every point has one, and they differ."""
        known = [step for step in self.steps if step is not None]
        return len(known) == len(self.points) and len(set(known)) > 1

    @property
    def label(self) -> str:
        """Return the label of its line: the panel's title, and the name of the line if there are several."""
        title = self.title or self.panel
        if self.name in (self.panel, ""):
            return title
        return self.name if self.panel in self.name else f"{title}, {self.name}"

    @property
    def known(self) -> int:
        """Return how many readings have a value."""
        return sum(1 for _, value in self.points if value is not None)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form for --json."""
        value = {"panel": self.panel, "name": self.name, "unit": self.unit, "title": self.title}
        steps = {"steps": list(self.steps)} if self.steps else {}
        return {**value, "points": [list(one) for one in self.points], **steps}
