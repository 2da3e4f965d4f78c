"""A run's budget at home: reported at launch, sent to the box, with one warning per threshold."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from leasehold.errors import LeaseholdError, Refusal
from leasehold.kit.run.run_states import TERMINAL
from leasehold.ledger import books
from leasehold.model.lease.budget import Spending, Stay, for_the_box, mismatch, spending_of
from leasehold.model.platform.billing_facts import LeaseFacts
from leasehold.model.run.note import Note, Report

from .platform_facts import facts_of

if TYPE_CHECKING:
    from leasehold.ledger.store import Ledger, LedgerEvent
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.lease import Lease, RunRecord


def bills(lease: Lease) -> bool:
    """Return whether a lease bills, as far as is known: your own machine without a price does not."""
    return lease.box != "local" or bool(lease.price)


def spending(home: Home, record: RunRecord, now_unix: float) -> Spending | None:
    """Return what a run has used of its budget; None when it has none, or when it cannot be compared."""
    job = json.loads(record.plan_json).get("job", {})
    budget = str(job.get("budget") or "")
    if not budget or mismatch(budget, books.find_lease(home.ledger, record.lease)):
        return None
    stays = _stays(home, record, now_unix)
    return spending_of(record.run, budget, str(job.get("at_limit", "warn")), stays)


def budget_for_box(home: Home, run: str, report: Report, *, refuse: bool) -> dict[str, Any]:
    """Format the budget for the caretaker; report one that cannot be watched; a used-up one may refuse a start."""
    record = books.find_run(home.ledger, run)
    lease = books.find_lease(home.ledger, record.lease)
    budget = str(json.loads(record.plan_json)["job"].get("budget") or "")
    if not budget or not bills(lease):
        return {}
    why = mismatch(budget, lease)
    if why:
        hint = f": lease box tell {lease.box} --price …" if not lease.price else ""
        report(Note("warning", why + hint, {"budget": budget, "price": lease.price}))
        return {}
    spent = spending(home, record, time.time())
    if spent is None:
        return {}
    if refuse and spent.passed >= 100 and spent.at_limit == "stop":
        raise Refusal(
            "budget.used_up",
            f"{record.run} has used up its budget, and its job says stop",
            seen=str(spent),
            hint="raise budget.limit in the job file, or set at_limit: warn",
        )
    return for_the_box(spent, lease, _facts(home, lease))


def warn(home: Home, record: RunRecord, now_unix: float, report: Report) -> None:
    """Report a threshold that was passed since this home last looked, once."""
    spent = spending(home, record, now_unix)
    if spent is None or spent.passed <= told(home.ledger, record.run, spent.limit_text):
        return
    remember(home.ledger, record, spent.limit_text, spent.passed)
    acts = "its job says stop" if spent.at_limit == "stop" else f"it continues; to end it: lease stop {record.run}"
    report(Note("warning", f"{record.run}: {spent}" + (f"; {acts}" if spent.passed >= 100 else ""), spent.as_dict()))


def told(ledger: Ledger, run: str, budget: str) -> int:
    """Return the highest threshold of this budget that this home has reported."""
    events = ledger.events(run=run, kind="budget_warned")
    return max((int(event.data["percent"]) for event in events if event.data["budget"] == budget), default=0)


def remember(ledger: Ledger, record: RunRecord, budget: str, percent: int) -> None:
    """Record that a threshold was reported."""
    ledger.append("budget_warned", lease=record.lease, run=record.run, budget=budget, percent=percent)


def _stays(home: Home, record: RunRecord, now_unix: float) -> list[Stay]:
    """List when the run had which lease: each stretch from its first live sighting to its end or its move."""
    spans: list[tuple[str, float, float | None]] = []
    for event in home.ledger.events(run=record.run, kind="run_seen"):
        lease, start, end = spans[-1] if spans else ("", 0.0, 0.0)
        alive, over = event.data["state"] in ("running", "stopping"), event.data["state"] in TERMINAL
        if end is None and (over or (alive and event.lease != lease)):
            spans[-1] = (lease, start, _ended(event, start))
        if alive and (end is not None or event.lease != lease):
            spans.append((event.lease, event.t, None))
    stays = []
    for name, start, end in spans:
        held = books.find_lease(home.ledger, name)
        stays.append(Stay(held, _facts(home, held), start, now_unix if end is None else end))
    return stays


def _ended(event: LedgerEvent, start: float) -> float:
    """Return the end time from the box; the time when this home learnt of it, if the box's is impossible."""
    said = float(event.data.get("changed_unix") or 0.0)
    return said if start < said < event.t else event.t


def _facts(home: Home, lease: Lease) -> LeaseFacts:
    try:
        return facts_of(home, lease)
    except LeaseholdError:
        return LeaseFacts()  # a platform with missing facts still has its price
