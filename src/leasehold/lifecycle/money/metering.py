"""Read the meters: from the ledger and platform facts, one Meter for each lease that may bill."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from leasehold.errors import LeaseholdError
from leasehold.ledger import books
from leasehold.model.lease import meter
from leasehold.model.lease.meter import Meter, read_meter
from leasehold.model.lease.trained_time import work_of
from leasehold.model.platform.billing_facts import LeaseFacts

from .budget import bills, spending
from .platform_facts import facts_of

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.budget import Spending
    from leasehold.model.lease.lease import Lease, Segment
    from leasehold.model.values.money import Money

_LIVE = ("running", "stopping", "unknown")


@dataclass(frozen=True)
class LeaseMeter:
    """A lease with its meter, and what its live runs have used of their budgets."""

    lease: Lease
    meter: Meter
    budgets: tuple[Spending, ...] = ()
    doubt: str = ""  # why the platform's facts are missing from it
    metered: bool = True  # holding it costs money
    twin: bool = False  # another open lease is on its box, so the box's name is ambiguous
    used: tuple[float, float, float] = (0.0, 0.0, 0.0)  # seconds of trainers, cores and GPUs: what an allocation pays

    def as_dict(self) -> dict[str, Any]:
        """Convert for --json."""
        lease = self.lease
        names = {"lease": lease.id, "box": lease.box, "platform": lease.platform, "price": lease.price}
        names = {**names, **({"counted_by": lease.counted_by} if lease.counted_by else {})}
        said = {**names, "opened": meter.iso(lease.opened_unix), **meter.as_dict(self.meter)}
        return {
            **said,
            "budgets": [item.as_dict() for item in self.budgets],
            "doubt": self.doubt,
            **dict(zip(("used_s", "core_s", "card_s"), self.used, strict=True)),
        }


def open_meters(home: Home, now_unix: float) -> list[LeaseMeter]:
    """Read the meter of every open lease that bills or may bill; ask no box."""
    held = books.leases(home.ledger, only_open=True)
    boxes = [lease.box for lease in held]
    twins = {box for box in boxes if boxes.count(box) > 1}
    found = [meter_of(home, lease, now_unix) for lease in held if bills(lease)]
    return [replace(one, twin=one.lease.box in twins) for one in found]


def cost_text(home: Home, lease: Lease, now_unix: float) -> str:
    """Format a lease's cost so far, storage included, in one line."""
    return cost_and_rate(home, lease, now_unix)[0].spelled


def cost_and_rate(home: Home, lease: Lease, now_unix: float) -> tuple[Money, Callable[[Segment], Money]]:
    """Return a lease's cost so far, storage included, and the hourly rate of each stretch of it."""
    try:
        facts = facts_of(home, lease)
    except LeaseholdError:
        facts = LeaseFacts()  # a platform with missing facts still has its price
    return meter.cost_between(lease, facts, now_unix), lambda segment: meter.an_hour(segment, facts)


def meter_of(home: Home, lease: Lease, now_unix: float) -> LeaseMeter:
    """Read one lease's meter; unreadable facts are named, and their share is left out."""
    records = books.metered_runs(home.ledger, lease.id)
    try:
        facts, doubt = facts_of(home, lease), ""
    except LeaseholdError as error:
        facts, doubt = LeaseFacts(), error.message
    works = [work for record in records if (work := work_of(record, facts, lease.root)) is not None]
    live = [record for record in records if record.state in _LIVE]
    budgets = [spent for record in live if (spent := spending(home, record, now_unix)) is not None]
    reading = read_meter(lease, facts, works, now_unix)
    metered = facts.metered or bool(lease.price)
    used = (0.0, 0.0, 0.0) if metered else _used(home, lease)
    return LeaseMeter(lease, reading, tuple(budgets), doubt, metered, used=used)


def _used(home: Home, lease: Lease) -> tuple[float, float, float]:
    works = [json.loads(record.work_json) for record in books.runs(home.ledger, lease=lease.id) if record.work_json]
    trained, cores, cards = (
        sum(float(work.get(name) or 0.0) for work in works) for name in ("trained_s", "core_s", "card_s")
    )
    return trained, cores, cards
