"""The facts of a platform's profile that a lease's screens need, small enough to be kept beside the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.model.values.money import Money

if TYPE_CHECKING:  # `lease status` must not load the whole profile
    from .profile import Profile


class ClockFact(NamedTuple):
    """A clock of the platform, without its source."""

    name: str
    starts: str
    after: str
    after_s: float | None
    effect: str
    deletes: tuple[str, ...]
    do: str


class RateFact(NamedTuple):
    """The cost of keeping files on a tier."""

    tier: str
    amount: Decimal
    currency: str
    hours: int  # the amount is for so many
    when: str
    above_gb: Decimal
    by_size: bool

    def hourly(self, gigabytes: Decimal) -> Money:
        """Calculate one hour of this many GB."""
        size = max(Decimal(0), gigabytes - self.above_gb) if self.by_size else Decimal(1)
        return Money.of(self.amount * size / self.hours, self.currency)


@dataclass(frozen=True)
class LeaseFacts:
    """Clocks, storage prices, and whether the run folder or its copies outlive the box."""

    clocks: tuple[ClockFact, ...] = ()
    rates: tuple[RateFact, ...] = ()
    state_path: str = ""
    state_outlives_box: bool = False
    copies_outlive_box: bool = False
    metered: bool = True  # holding it costs money; a cluster's login node does not
    bills: bool = False  # the platform is known to bill; for a bare SSH box only a price shows it

    def storage_per_hour(self, gigabytes: Mapping[str, Decimal], stopped: bool) -> Money:
        """Calculate one hour of keeping so many GB on each tier, running or stopped."""
        whens = ("stopped" if stopped else "running", "always")
        total = Money()
        for rate in self.rates:
            if rate.tier in gigabytes and rate.when in whens:
                total += rate.hourly(gigabytes[rate.tier])
        return total

    def outlives_box(self, root: str) -> bool:
        """Return whether a run folder below this root still exists when the box is gone."""
        inside = not self.state_path or (root + "/").startswith(self.state_path.rstrip("/") + "/")
        return self.state_outlives_box and inside

    def as_dict(self) -> dict[str, Any]:
        """Return the form for JSON."""
        return {
            "clocks": [list(clock) for clock in self.clocks],
            "rates": [[str(part) if isinstance(part, Decimal) else part for part in rate] for rate in self.rates],
            "state_path": self.state_path,
            "state_outlives_box": self.state_outlives_box,
            "copies_outlive_box": self.copies_outlive_box,
            "metered": self.metered,
            "bills": self.bills,
        }


def facts_from_dict(value: dict[str, Any]) -> LeaseFacts:
    """Read back the facts that this home wrote itself."""
    clocks = tuple(ClockFact(*clock)._replace(deletes=tuple(clock[5])) for clock in value["clocks"])
    rates = [RateFact(*rate) for rate in value["rates"]]
    return LeaseFacts(
        clocks,
        tuple(rate._replace(amount=Decimal(rate.amount), above_gb=Decimal(rate.above_gb)) for rate in rates),
        value["state_path"],
        value["state_outlives_box"],
        value["copies_outlive_box"],
        value["metered"],
        value["bills"],
    )


def facts_of_profile(profile: Profile) -> LeaseFacts:
    """Extract from a profile what a meter needs."""
    from .profile import RATE_UNITS, YES

    durable, state = profile.durable_tier, profile.state_tier
    return LeaseFacts(
        clocks=tuple(
            ClockFact(clock.name, clock.starts, clock.after, clock.after_s, clock.effect, clock.deletes, clock.do)
            for clock in profile.clocks
        ),
        rates=tuple(
            RateFact(
                tier.name, rate.amount, rate.currency, RATE_UNITS[rate.per], rate.when, rate.above_gb,
                rate.per.startswith("GB"),
            )
            for tier in profile.tiers
            for rate in tier.rates
        ),
        state_path=state.path,
        state_outlives_box=state.survives_destroy == YES,
        copies_outlive_box=durable is not None and durable.survives_destroy == YES,
        metered=profile.traits.meter_stop_verb != "n/a",
        bills=profile.bills,
    )  # fmt: skip
