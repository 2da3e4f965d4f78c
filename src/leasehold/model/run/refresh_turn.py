"""A fleet being asked: how many boxes have answered, and who is still waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FleetTurn:
    """How it stands at one moment of asking every box."""

    asked: int
    answered: int
    silent: dict[str, str]  # box: why its state is unknown
    waiting: tuple[str, ...] = ()  # who is being asked, the slowest first
    left_s: float = 0.0  # so long the slowest is waited for
    runs: frozenset[str] = frozenset()  # of which something was heard since the last turn

    def as_dict(self) -> dict[str, Any]:
        """Spell for --json."""
        silent = [{"box": box, "why": why} for box, why in sorted(self.silent.items())]
        return {"asked": self.asked, "answered": self.answered, "silent": silent}

    def line(self, columns: int) -> str:
        """Say it in one line that fits."""
        text = f"{self.answered} of {self.asked} boxes answered"
        if self.silent:
            text += f", {len(self.silent)} silent"
        last = self.answered + len(self.silent) + len(self.waiting) == self.asked
        if last and 0 < len(self.waiting) <= 3:
            text += f"; {', '.join(self.waiting)}: {self.left_s:.0f} s left to answer"
        return text[: max(20, columns - 1)]
