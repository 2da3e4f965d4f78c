"""The state of a fleet query: how many boxes have answered, and which are still awaited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FleetTurn:
    """The progress of querying every box at one moment."""

    asked: int
    answered: int
    silent: dict[str, str]  # box: why its state is unknown
    waiting: tuple[str, ...] = ()  # boxes being queried, the slowest first
    left_s: float = 0.0  # how long the slowest has been awaited
    runs: frozenset[str] = frozenset()  # boxes that sent something since the last turn

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form for --json."""
        silent = [{"box": box, "why": why} for box, why in sorted(self.silent.items())]
        return {"asked": self.asked, "answered": self.answered, "silent": silent}

    def line(self, columns: int) -> str:
        """Format it in one line that fits."""
        text = f"{self.answered} of {self.asked} boxes answered"
        if self.silent:
            text += f", {len(self.silent)} silent"
        last = self.answered + len(self.silent) + len(self.waiting) == self.asked
        if last and 0 < len(self.waiting) <= 3:
            text += f"; {', '.join(self.waiting)}: {self.left_s:.0f} s left to answer"
        return text[: max(20, columns - 1)]
