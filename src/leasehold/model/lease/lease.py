"""A lease: the time we hold a box, with its meter."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from leasehold.model.values.money import HourlyPrice, Money

RUNNING, PARKED, CLOSED = "running", "parked", "closed"
UNKNOWN = "unknown"  # a stop was requested but not confirmed: it counts as billing, and as stopped for clocks


class Change(NamedTuple):
    """One change of a lease at a moment: its state, price, disk, balance or kind of capacity."""

    at_unix: float
    what: str  # state, price, rate, disk, balance, spot, counted
    value: Any


class Segment(NamedTuple):
    """A period of a lease with constant meter settings."""

    from_unix: float
    to_unix: float
    state: str
    price: str
    disk_gb: dict[str, Decimal]  # by tier; a missing tier was not known then
    rate: str = ""  # what the landlord says that all of it bills an hour; empty: nobody says

    @property
    def hours(self) -> Decimal:
        """Return its length."""
        return Decimal(max(0.0, self.to_unix - self.from_unix)) / 3600

    @property
    def compute(self) -> Money:
        """Return the cost of an hour of its compute."""
        return HourlyPrice.parse(self.price).money if self.state != PARKED and self.price else Money()


class Balance(NamedTuple):
    """The account balance when it was last checked."""

    amount: Money
    told_unix: float


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
    changes: tuple[Change, ...] = ()  # in order; empty is running at `price` all the time

    @property
    def open(self) -> bool:
        """Return whether the meter may still run."""
        return not self.closed_unix

    @property
    def state(self) -> str:
        """Return running, parked, unknown or closed."""
        if not self.open:
            return CLOSED
        return next((str(change.value) for change in reversed(self.changes) if change.what == "state"), RUNNING)

    @property
    def parked(self) -> bool:
        """Return whether its compute is off and only files are kept."""
        return self.state == PARKED

    @property
    def off_unknown(self) -> bool:
        """Return whether a stop was requested but neither a person nor the platform has confirmed that it is off."""
        return self.state == UNKNOWN

    @property
    def since_unix(self) -> float:
        """Return when it entered its present state."""
        if not self.open:
            return self.closed_unix
        moments = [change.at_unix for change in self.changes if change.what == "state"]
        return moments[-1] if moments else self.opened_unix

    @property
    def disk_gb(self) -> dict[str, Decimal]:
        """Return the size of each tier, as last measured or stated."""
        return _sizes(next((change.value for change in reversed(self.changes) if change.what == "disk"), {}))

    @property
    def rate(self) -> str:
        """Return what the landlord last said that all of it bills an hour; empty if nobody says."""
        return next((str(change.value) for change in reversed(self.changes) if change.what == "rate"), "")

    @property
    def balance(self) -> Balance | None:
        """Return the account's balance as last stated."""
        for change in reversed(self.changes):
            if change.what == "balance":
                return Balance(Money.parse(str(change.value["amount"])), float(change.value["told_unix"]))
        return None

    @property
    def spot(self) -> bool | None:
        """Return whether its capacity can be taken away, as last stated; None if nobody stated it."""
        return next((bool(change.value) for change in reversed(self.changes) if change.what == "spot"), None)

    @property
    def counted_by(self) -> str:
        """Return the lease whose meter includes this one, since both are on one machine; empty counts by itself."""
        return next((str(change.value) for change in reversed(self.changes) if change.what == "counted"), "")

    def segments(self, until_unix: float, since_unix: float = 0.0) -> list[Segment]:
        """Cut the lease at every change of its meter, from its opening (or later) to a moment (or its end).

        Periods that another lease of the same machine counts are left out.
        The first known price and disk sizes apply from the opening: it cost no less before.
        """
        end = min(until_unix, self.closed_unix) if self.closed_unix else until_unix
        state, price, disk = RUNNING, str(self._first("price", self.price)), _sizes(self._first("disk", {}))
        rate = ""  # before it was first told, price and storage are what is known
        found: list[Segment] = []
        start, counted = max(since_unix, self.opened_unix), ""
        for change in self.changes:
            moment = min(end, change.at_unix)
            if change.what not in ("balance", "spot") and moment > start:
                found += [] if counted else [Segment(start, moment, state, price, disk, rate)]
                start = moment
            if change.what == "counted":
                counted = str(change.value)
            if change.what == "state":
                state = str(change.value)
            elif change.what == "price":
                price = str(change.value)
            elif change.what == "rate":
                rate = str(change.value)
            elif change.what == "disk":
                disk = _sizes(change.value)
        return [*found, Segment(start, end, state, price, disk, rate)] if end > start and not counted else found

    def cost(self, now_unix: float) -> str:
        """Return the cost of its compute so far; empty if no price was given."""
        return self.compute(now_unix).spelled if self.price else ""

    def compute(self, now_unix: float) -> Money:
        """Add up the cost of its compute so far, by the price that was given."""
        total = Money.of(0, HourlyPrice.parse(self.price).currency) if self.price else Money()
        for segment in self.segments(now_unix):
            total += segment.compute.times(segment.hours)
        return total

    def _first(self, what: str, default: Any) -> Any:
        return next((change.value for change in self.changes if change.what == what), default)


def _sizes(value: dict[str, str]) -> dict[str, Decimal]:
    return {str(tier): Decimal(str(size)) for tier, size in value.items()}


class RunLine(NamedTuple):
    """A run as a list shows it: a home may have thousands, and their plans and receipts are long."""

    run: str
    lease: str
    box: str
    name: str
    state: str
    reason: str
    results: str
    created_unix: float
    seen_unix: float
    home_since: str
    waived: tuple[str, ...]
    receipt: bool
    nonfinite: bool = False  # its receipt names files with NaN or infinity
    work_json: str = ""


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
    work_json: str = ""  # the box's last report of trained time, checkpoints and progress

    def line(self) -> RunLine:
        """Return its entry for a list."""
        return RunLine(
            self.run, self.lease, self.box, self.name, self.state, self.reason, self.results, self.created_unix,
            self.seen_unix, self.home_since, self.waived, bool(self.receipt_json), bool(self.nonfinite()),
            self.work_json,
        )  # fmt: skip

    def nonfinite(self) -> list[dict[str, Any]]:
        """List the files at home that hold NaN or infinity, as the receipt names them."""
        return list(json.loads(self.receipt_json).get("nonfinite", ())) if '"nonfinite"' in self.receipt_json else []

    def settled(self) -> list[str]:
        """List cells that are home or were given up."""
        receipt = json.loads(self.receipt_json) if self.receipt_json else {}
        return [*receipt.get("cells", ()), *self.waived]

    def owed(self) -> list[str]:
        """List promised cells that are neither home nor given up."""
        done = set(self.settled())
        return [cell for cell in json.loads(self.plan_json).get("cells", ()) if cell not in done]

    def home_s(self) -> float:
        """Return the trained time that the receipt covers."""
        return float(json.loads(self.receipt_json).get("home_s") or 0.0) if self.receipt_json else 0.0

    def waives(self, cell: str) -> bool:
        """Return whether a person gave up this cell."""
        return cell in self.waived
