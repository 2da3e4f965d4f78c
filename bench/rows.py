"""What a bench reports: our number beside a peer's, their ratio, and the goal it is held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, Literal

_HEAD = ("what", "ours", "peer", "ratio", "goal", "met?")
_SIGNS = {"≤": float.__le__, "<": float.__lt__, "≥": float.__ge__}


class MissingPart(Exception):
    """This machine lacks what a bench needs; str() says what."""


@dataclass(frozen=True)
class Goal:
    """A limit on the ratio or on our own number."""

    of: Literal["ratio", "ours"]
    sign: Literal["≤", "<", "≥"]
    limit: float


@dataclass(frozen=True)
class Row:
    """One line of the table. Each number of ours and of the peer is one round; rounds are paired."""

    bench: str
    what: str
    unit: str  # s, MB, MB/s, % or crashes
    ours: Sequence[float]
    peer: Sequence[float] = ()
    peer_name: str = ""
    goal: Goal | None = None

    @property
    def ratio(self) -> float | None:
        """Our median over the peer's."""
        return median(self.ours) / median(self.peer) if self.peer else None

    @property
    def spread(self) -> tuple[float, float] | None:
        """The middle half of the rounds' own ratios: how far noise moved them."""
        each = [ours / peer for ours, peer in zip(self.ours, self.peer, strict=True)] if self.peer else []
        return (quantiles(each, n=4)[0], quantiles(each, n=4)[2]) if len(each) > 3 else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        if self.goal is None:
            return None
        value = self.ratio if self.goal.of == "ratio" else median(self.ours)
        return value is not None and _SIGNS[self.goal.sign](float(value), float(self.goal.limit))

    def as_dict(self) -> dict[str, Any]:
        """Spell for --json, every round included."""
        goal = f"{self.goal.of} {self.goal.sign} {self.goal.limit:g}" if self.goal else None
        return {**vars(self), "goal": goal, "ratio": self.ratio, "spread": self.spread, "met": self.met}


def markdown(rows: Sequence[Row]) -> str:
    """Spell the table so that it reads on a terminal and can be pasted into a document."""
    cells = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(_HEAD))]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in cells]
    padded.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)


def _cells(row: Row) -> tuple[str, ...]:
    peer = f"{_number(median(row.peer), row.unit)} {row.peer_name}" if row.peer else "-"
    met = {True: "yes", False: "NO", None: "-"}[row.met]
    return (f"{row.bench}: {row.what}", _number(median(row.ours), row.unit), peer, _ratio(row), _goal(row), met)


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return "-"
    digits = 4 if row.goal and 1 < row.goal.limit < 1.01 else 2  # a goal of a thousandth needs to be seen
    low_high = f" ({row.spread[0]:.{digits}f}–{row.spread[1]:.{digits}f})" if row.spread else ""
    return f"{row.ratio:.{digits}f}×{low_high}"


def _goal(row: Row) -> str:
    if row.goal is None:
        return "-"
    limit = f"{row.goal.limit:g}×" if row.goal.of == "ratio" else f"{row.goal.limit:g} {row.unit}"
    return f"{row.goal.sign} {limit}"


def _number(value: float, unit: str) -> str:
    if unit == "s" and value < 1:
        return f"{value * 1000:.1f} ms"
    return f"{value:.0f} {unit}" if value >= 100 or unit == "crashes" else f"{value:.2f} {unit}"
