"""The rows of a list of runs: state, progress, and each run's share of its lease's cost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.model.lease.lease import Lease, RunLine, Segment
from leasehold.model.lease.shared_cost import shares
from leasehold.model.values.money import HourlyPrice, Money

_ENDED = ("finished", "failed", "stopped")


def rows_of(home: Home, lines: list[RunLine]) -> list[dict[str, Any]]:
    """Return the row of each run, as last known."""
    held = {lease.id: lease for lease in books.leases(home.ledger)}
    now = time.time()
    costs = _Costs(home, held, lines, now)
    return [_row(line, held[line.lease], costs, now) for line in lines]


def cost_of(home: Home, lease: Lease, now: float) -> tuple[str, Callable[[Segment], Money]]:
    """Return what a lease has cost, and its hourly rate; prices are looked up only where a disk of known size bills."""
    if not lease.disk_gb:
        return lease.cost(now), lambda segment: segment.compute
    from leasehold.lifecycle.money.metering import cost_and_rate

    total, an_hour = cost_and_rate(home, lease, now)
    return total.spelled, an_hour


class _Costs:
    """The costs of leases, and each run's share of them."""

    def __init__(self, home: Home, held: Mapping[str, Lease], lines: list[RunLine], now: float) -> None:
        self._held = held
        self.of_lease: dict[str, str] = {}  # empty where no price is known
        self._of_run: dict[str, Money] = {}
        known = books.leases_of(home.ledger, [line.run for line in lines])
        for name in {*(line.lease for line in lines), *known} & set(held):
            self.of_lease[name], an_hour = cost_of(home, held[name], now)
            if self.of_lease[name]:
                ran = _ran(books.stays_on(home.ledger, name), held[name].closed_unix or now)
                for run, share in shares(held[name], an_hour, ran, now).items():
                    self._of_run[run] = self._of_run.get(run, Money()) + share

    def of_run(self, line: RunLine) -> str:
        """Return a run's share of the cost of every lease that it lived on; empty where no price is known."""
        if (share := self._of_run.get(line.run, Money())).amounts:
            return share.spelled
        return _nothing(self._held[line.lease]) if self.of_lease[line.lease] else ""


def _ran(stays: list[tuple[str, float, float]], end: float) -> dict[str, list[tuple[float, float]]]:
    """List when each run lived; a live run counts until now, or until its lease was closed."""
    found: dict[str, list[tuple[float, float]]] = {}
    for run, began, ended in stays:
        if (until := min(ended or end, end)) > began:
            found.setdefault(run, []).append((began, until))
    return found


def _nothing(lease: Lease) -> str:
    return Money.of(0, HourlyPrice.parse(lease.price).currency).spelled if lease.price else ""


def _row(line: RunLine, lease: Lease, costs: _Costs, now: float) -> dict[str, Any]:
    work = json.loads(line.work_json) if line.work_json else {}
    return {
        "run": line.run,
        "name": line.name,
        "state": line.state,
        "reason": line.reason,
        "box": line.box,
        "lease": line.lease,
        "lease_open": lease.open,
        "age_s": int(now - line.created_unix),
        "seen_s_ago": int(now - line.seen_unix) if line.seen_unix else None,
        "home": line.home_since,
        "receipt": line.receipt,
        "nonfinite": line.nonfinite,
        "waived": list(line.waived),
        "progress": _progress(work, line.state, now),
        "refuge": refuge_of(work, line.state, lease.price, now),
        "cost": costs.of_run(line),
        "lease_cost": costs.of_lease[lease.id],
        "price": lease.price,
        "results": line.results,
    }


def refuge_of(work: Mapping[str, Any], state: str, price: str, now: float) -> dict[str, Any]:
    """Return what has left the box and what would be lost with it, as last read and carried on; {} after its end."""
    if not work.get("refuge") or state == "finished":
        return {}
    from leasehold.model.lease.off_the_box import carried_on

    training = bool(work.get("training")) and state not in _ENDED
    return carried_on(work["refuge"], max(0.0, now - float(work.get("heard_unix") or now)), training, price)


def _progress(work: Mapping[str, Any], state: str, now: float) -> dict[str, Any]:
    """Return a run's progress as last read; the remaining time is predicted only while it runs."""
    if state in _ENDED and work.get("training"):
        return {}  # last read before its end: its final progress is not known
    said = dict(work.get("progress") or {})
    heard = float(work.get("heard_unix") or now)
    if (left := said.pop("eta_s", None)) is not None and state == "running":
        said["eta_s"] = max(0, round(left - (now - heard)))
    return {**said, "heard_s_ago": int(now - heard)} if said else {}
