"""A run's budget, and how much of it is used. Warns at thresholds; acts only as the job requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from leasehold.model.values.money import HourlyPrice, Money

from .lease import Lease
from .meter import Platform, burn_per_hour, cost_between

THRESHOLDS = (50, 80, 100)


class Stay(NamedTuple):
    """A run's time on one lease."""

    lease: Lease
    platform: Platform
    from_unix: float
    to_unix: float


@dataclass(frozen=True)
class Spending:
    """A run's budget and its cost so far; amounts of another currency are listed separately, unconverted."""

    run: str
    limit: Decimal
    currency: str
    at_limit: str
    spent: Decimal
    apart: Money = Money()

    @property
    def percent(self) -> int:
        """Return the part used, in whole percent, never rounded up."""
        return int(self.spent * 100 / self.limit) if self.limit else 100

    @property
    def passed(self) -> int:
        """Return the highest threshold that is reached; 0 is none."""
        return max((mark for mark in THRESHOLDS if self.spent * 100 >= self.limit * mark), default=0)

    @property
    def limit_text(self) -> str:
        """Return the limit as both ends write it."""
        return f"{self.limit:f}{self.currency}"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form for --json."""
        return {
            "run": self.run,
            "limit": Money.of(self.limit, self.currency).as_dict(),
            "spent": Money.of(self.spent, self.currency).as_dict(),
            "percent": self.percent,
            "at_limit": self.at_limit,
            "not_comparable": self.apart.as_dict(),
        }

    def __str__(self) -> str:
        from leasehold.kit.events.run_events import budget_used  # few runs have a budget to warn of

        return budget_used(self.percent, f"{self.spent:.2f}", f"{self.limit:f}", self.currency)


def spending_of(run: str, budget: str, at_limit: str, stays: Sequence[Stay]) -> Spending:
    """Add up what a run's boxes cost while they worked for it."""
    (currency, limit), *_ = Money.parse(budget).amounts
    total = Money()
    for stay in stays:
        total += cost_between(stay.lease, stay.platform, stay.to_unix, stay.from_unix)
    amounts = dict(total.amounts)
    spent = amounts.pop(currency, Decimal(0))
    apart = Money(tuple((name, amount) for name, amount in sorted(amounts.items()) if amount))
    return Spending(run, limit, currency, at_limit, spent, apart)


def mismatch(budget: str, lease: Lease) -> str:
    """Explain why a budget cannot be compared with a lease's price; empty if it can."""
    (currency, _), *_ = Money.parse(budget).amounts
    if not lease.price:
        return f"the budget of {budget} is not watched: {lease.box} has no price"
    paid = HourlyPrice.parse(lease.price).currency
    if paid != currency:
        return f"the budget of {budget} is not watched: {lease.box} is paid in {paid}, and no exchange rate is invented"
    return ""


def for_the_box(spent: Spending, lease: Lease, platform: Platform) -> dict[str, Any]:
    """Return what the caretaker needs to continue counting alone: exact decimals as text."""
    hourly = dict(burn_per_hour(lease, platform).amounts).get(spent.currency, Decimal(0))
    return {
        "limit": f"{spent.limit:f}",
        "currency": spent.currency,
        "at_limit": spent.at_limit,
        "spent": f"{spent.spent:.12f}",
        "per_hour": f"{hourly:.12f}",
    }
