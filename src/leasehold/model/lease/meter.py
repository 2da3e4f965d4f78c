"""A lease's cost, its remaining time, and the loss if it ended now. Pure: facts and a moment in."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

from leasehold.model.values.money import HourlyPrice, Money

from .lease import PARKED, Balance, Lease, Segment

_GONE_S = 100 * 366 * 86400.0  # a later date than this is not treated as a date
_NOW = "at once"  # the spelling in a profile


class TimedFact(Protocol):
    """An event that happens by itself: the shape of profile.Clock."""

    @property
    def name(self) -> str: ...
    @property
    def starts(self) -> str: ...
    @property
    def after(self) -> str: ...
    @property
    def after_s(self) -> float | None: ...
    @property
    def effect(self) -> str: ...
    @property
    def deletes(self) -> tuple[str, ...]: ...
    @property
    def do(self) -> str: ...


class Platform(Protocol):
    """The facts that the meter needs from a platform; a Profile has them."""

    @property
    def clocks(self) -> Sequence[TimedFact]: ...

    def storage_per_hour(self, gigabytes: Mapping[str, Decimal], stopped: bool) -> Money:
        """Calculate one hour of keeping so many GB on each tier."""


class Work(NamedTuple):
    """A run's trained time that exists only on the box."""

    run: str
    training: bool  # a trainer runs, as far as is known: the figures below grow with the clock
    trained_s: float  # all that would have to be done again
    unsaved_s: float | None  # trained since the newest checkpoint on the box; None if not known
    heard_unix: float
    started_unix: float = 0.0
    left_s: float | None = None  # until it is done: by `expect`, or measured

    def later(self, now_unix: float) -> Work:
        """Advance the figures from when they were reported to now."""
        grown = max(0.0, now_unix - self.heard_unix) if self.training else 0.0
        unsaved = None if self.unsaved_s is None else self.unsaved_s + grown
        left = None if self.left_s is None else max(0.0, self.left_s - grown)
        return self._replace(trained_s=self.trained_s + grown, unsaved_s=unsaved, left_s=left)


class Loss(NamedTuple):
    """Trained time, and the cost of repeating it."""

    seconds: float
    cost: Money


class DueClock(NamedTuple):
    """A clock that will fire, with its date."""

    name: str
    due_unix: float
    effect: str
    deletes: tuple[str, ...] = ()
    do: str = ""


@dataclass(frozen=True)
class Meter:
    """A lease's money and time at one moment; None is not known."""

    state: str
    since_unix: float
    cost: Money
    burn: Money  # per hour, at the present rate
    priced: bool
    projected: Money | None
    balance_left: Money | None
    balance_zero_unix: float | None
    clocks: tuple[DueClock, ...]  # with a date, the nearest first
    undated: tuple[TimedFact, ...]  # with unknown start
    box_loss: Loss | None  # if the box died now
    process_loss: Loss | None  # if only the trainer died; None also when no checkpoint is known
    heard_unix: float  # since when the losses are extrapolated by the clock alone; 0 if nothing grows

    @property
    def next_clock(self) -> DueClock | None:
        """Return the clock that fires first."""
        return self.clocks[0] if self.clocks else None


def read_meter(lease: Lease, platform: Platform, works: Sequence[Work], now_unix: float) -> Meter:
    """Calculate everything that the screens show of a lease."""
    works = [work.later(now_unix) for work in works]
    cost, burn = cost_between(lease, platform, now_unix), burn_per_hour(lease, platform)
    left = balance_left(lease.balance, [lease], platform, now_unix)
    zero = _runs_dry(left, burn, now_unix)
    dated, undated = _clocks(lease, platform, works, zero)
    heard = [work.heard_unix for work in works if work.training]
    return Meter(
        state=lease.state,
        since_unix=lease.since_unix,
        cost=cost,
        burn=burn,
        priced=bool(lease.price),
        projected=_projected(cost, burn, works) if lease.price and lease.open else None,
        balance_left=left,
        balance_zero_unix=zero,
        clocks=dated,
        undated=undated,
        box_loss=_loss(lease, [work.trained_s for work in works]),
        process_loss=_loss(lease, [work.unsaved_s for work in works if work.training]),
        heard_unix=min(heard, default=0.0),
    )


def cost_between(lease: Lease, platform: Platform, until_unix: float, since_unix: float = 0.0) -> Money:
    """Add up segments: running (or unknown) costs price and storage, parked costs storage, closed costs nothing."""
    total = HourlyPrice.parse(lease.price).money.times(0) if lease.price else Money()
    for segment in lease.segments(until_unix, since_unix):
        total += an_hour(segment, platform).times(segment.hours)
    return total


def burn_per_hour(lease: Lease, platform: Platform) -> Money:
    """Return the cost of the next hour if nothing changes."""
    if not lease.open or lease.counted_by:
        return Money()
    return an_hour(Segment(0.0, 0.0, lease.state, lease.price, lease.disk_gb, lease.rate), platform)


def an_hour(segment: Segment, platform: Platform) -> Money:
    """Return the cost of an hour of such a period: as the landlord says, else by price and storage."""
    if segment.rate:
        return HourlyPrice.parse(segment.rate).money
    storage = platform.storage_per_hour(segment.disk_gb, segment.state == PARKED)
    return storage + segment.compute


def _projected(cost: Money, burn: Money, works: Sequence[Work]) -> Money | None:
    """Return the total cost when everything that runs is done; unknown as soon as one end is."""
    lefts = [work.left_s for work in works if work.training]
    if not lefts or any(left is None for left in lefts):
        return None
    return cost + burn.times(Decimal(max(left for left in lefts if left is not None)) / 3600)


def balance_left(told: Balance | None, leases: Sequence[Lease], platform: Platform, now_unix: float) -> Money | None:
    """Return the stated balance less the cost of this box's leases since; other boxes of the account are not known."""
    if told is None:
        return None
    costs = (cost_between(lease, platform, now_unix, told.told_unix) for lease in leases)
    spent = dict(sum(costs, Money()).amounts)
    currency, amount = told.amount.amounts[0]
    return Money.of(max(Decimal(0), amount - spent.get(currency, Decimal(0))), currency)


def _runs_dry(left: Money | None, burn: Money, now_unix: float) -> float | None:
    """Divide balance by burn, in one currency only: no exchange rate is invented."""
    if left is None:
        return None
    currency, amount = left.amounts[0]
    hourly = dict(burn.amounts).get(currency, Decimal(0))
    lasts_s = float(amount / hourly) * 3600 if hourly > 0 else _GONE_S
    return now_unix + lasts_s if lasts_s < _GONE_S else None


def _clocks(
    lease: Lease, platform: Platform, works: Sequence[Work], zero_unix: float | None
) -> tuple[tuple[DueClock, ...], tuple[TimedFact, ...]]:
    """Date the clocks whose start is known; a start that was not recorded gives no date."""
    if not lease.open:
        return (), ()
    begun = {"opened": lease.opened_unix}
    if lease.parked or lease.off_unknown:  # a clock that a stop may have started is counted from the earliest moment
        begun["stopped"] = lease.since_unix
    if zero_unix is not None:
        begun["balance-zero"] = zero_unix
    starts = [work.started_unix for work in works if work.training and work.started_unix]
    if starts and not lease.parked:
        begun["run-start"] = min(starts)
    seen = max((work.heard_unix for work in works if work.training), default=0.0)
    dated, undated = [], []
    for clock in platform.clocks:
        due = _due(clock, begun)
        if due is None:
            undated += [clock] if clock.after != "never" and (clock.after != _NOW or clock.starts not in begun) else []
        elif due > seen or clock.starts == "balance-zero":  # else it passed, and the box was seen working since
            name = f"{clock.name} (if it is off)" if clock.starts == "stopped" and lease.off_unknown else clock.name
            dated.append(DueClock(name, due, clock.effect, tuple(clock.deletes), clock.do))
    if zero_unix is not None and not any(clock.due_unix == zero_unix for clock in dated):
        dated.append(DueClock("the balance is used up", zero_unix, "the box stops, or worse", (), "top up"))
    return tuple(sorted(dated, key=lambda clock: clock.due_unix)), tuple(undated)


def _due(clock: TimedFact, begun: Mapping[str, float]) -> float | None:
    start = begun.get(clock.starts)
    if start is None:
        return None
    if clock.after_s is None:  # the immediate effect of a stop has already happened
        return start if clock.after == _NOW and clock.starts == "balance-zero" else None
    return start + clock.after_s


def _loss(lease: Lease, seconds: Sequence[float | None]) -> Loss | None:
    """Add up; one unknown part makes the whole unknown."""
    if any(part is None for part in seconds) or not seconds:
        return None
    total = sum(part for part in seconds if part is not None)
    hourly = HourlyPrice.parse(lease.price).money if lease.price else Money()
    return Loss(total, hourly.times(Decimal(total) / 3600))


def iso(unix: float | None) -> str | None:
    """Format a moment for --json: UTC, to the second."""
    return None if unix is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix))


def as_dict(meter: Meter) -> dict[str, Any]:
    """Return the form for --json: exact decimals by currency, ISO dates."""
    return {
        "state": meter.state,
        "since": iso(meter.since_unix),
        "price_known": meter.priced,
        "cost": meter.cost.as_dict(),
        "burn_per_hour": meter.burn.as_dict(),
        "projected_total": None if meter.projected is None else meter.projected.as_dict(),
        "balance_left": None if meter.balance_left is None else meter.balance_left.as_dict(),
        "balance_zero": iso(meter.balance_zero_unix),
        "next_clock": None if meter.next_clock is None else _clock_dict(meter.next_clock),
        "clocks": [_clock_dict(clock) for clock in meter.clocks],
        "clocks_without_a_date": [
            {"name": clock.name, "starts": clock.starts, "after": clock.after} for clock in meter.undated
        ],
        "at_risk": {
            "if_the_box_dies": _loss_dict(meter.box_loss),
            "if_the_process_dies": _loss_dict(meter.process_loss),
            "carried_on_since": iso(meter.heard_unix or None),
        },
    }


def _clock_dict(clock: DueClock) -> dict[str, Any]:
    return {
        "name": clock.name,
        "date": iso(clock.due_unix),
        "effect": clock.effect,
        "deletes": list(clock.deletes),
        "do": clock.do,
    }


def _loss_dict(loss: Loss | None) -> dict[str, Any] | None:
    return None if loss is None else {"seconds": round(loss.seconds), "cost": loss.cost.as_dict()}
