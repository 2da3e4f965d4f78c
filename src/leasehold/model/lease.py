"""A lease: the time we hold a box, with its meter."""

from __future__ import annotations

from dataclasses import dataclass

from .money import HourlyPrice


@dataclass(frozen=True)
class Lease:
    """A box we hold, and since when it bills."""

    id: str
    box: str
    platform: str
    root: str
    opened_unix: float
    price: str = ""
    closed_unix: float = 0.0

    @property
    def open(self) -> bool:
        """Whether the meter may still run."""
        return not self.closed_unix

    def cost(self, now_unix: float) -> str:
        """Say what it cost so far; empty when no price was given."""
        if not self.price:
            return ""
        return HourlyPrice.parse(self.price).cost((self.closed_unix or now_unix) - self.opened_unix)


@dataclass(frozen=True)
class RunRecord:
    """A run as this home last knew it."""

    run: str
    lease: str
    box: str
    name: str
    state: str
    reason: str
    project: str
    results: str
    created_unix: float
    seen_unix: float
    seq: int
    plan_json: str
    receipt_json: str
    home_since: str
    waived: tuple[str, ...] = ()

    def waives(self, cell: str) -> bool:
        """Whether a person gave up this cell."""
        return cell in self.waived
