"""Gather what is known of a box (price, balance, disks, spot, root) and judge the plan gate; the only way to it.

`lease plan`, `lease run`, the choice among candidates, sweeps over several boxes and `lease adopt` all use it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from leasehold.errors import LeaseholdError
from leasehold.gates.start.planning import judge_plan, say_grace, warnings
from leasehold.ledger import books, box_book
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.money.platform_facts import facts_of
from leasehold.model.job.job import Job
from leasehold.model.lease.box import BoxEntry
from leasehold.model.lease.lease import Balance, Lease
from leasehold.model.lease.meter import balance_left
from leasehold.model.platform.billing_facts import LeaseFacts
from leasehold.model.platform.placing import DEFAULT_ROOT, placed
from leasehold.model.platform.plan_sheet import PlanSheet, Wishes
from leasehold.model.platform.profile import Profile
from leasehold.model.run.verdict import Verdict
from leasehold.model.values.money import Money

from .plan_sheet import make_sheet


@dataclass(frozen=True)
class Planned:
    """A job on a candidate, and the plan gate's verdict."""

    sheet: PlanSheet
    verdict: Verdict
    warnings: tuple[str, ...] = ()
    grace: str = ""  # the warning that a checkpoint takes longer to write than an eviction allows


def judge(candidate: str, job: Job, profile: Profile, wishes: Wishes, now_unix: float) -> Planned:
    """Make the sheet and judge it; equal inputs give an equal verdict, whoever calls."""
    sheet = make_sheet(candidate, job, profile, wishes)
    return Planned(sheet, judge_plan(job, sheet), tuple(warnings(job, sheet, now_unix)), say_grace(sheet))


def judge_on_box(
    home: Home, box: Box, job: Job, asked: Wishes, now_unix: float, project: Path | None = None
) -> Planned:
    """Judge a job on a box with the facts from the command, the box book and the open lease."""
    wishes = known_of(home, box, replace(asked, root=asked.root or box.root or DEFAULT_ROOT), now_unix)
    profile = home.shelf(project).load(box.platform)
    return judge(box.name, job, placed(profile, wishes.root, box.durable), wishes, now_unix)


def profile_on(home: Home, box: Box, project: Path | None = None) -> Profile:
    """Load a box's platform as it applies there: our folder's tier has the state role, the durable tier its path."""
    return placed(home.shelf(project).load(box.platform), box.root or DEFAULT_ROOT, box.durable)


def known_of(home: Home, box: Box, asked: Wishes, now_unix: float) -> Wishes:
    """Fill in unstated facts: the command's come first, then the book's, then the open lease's."""
    entry = box_book.find(home.ledger, box.name)
    of_box = [lease for lease in books.leases(home.ledger) if lease.box == box.name]
    held = next((lease for lease in of_box if lease.open and lease.root == box.root), None)
    spot = held.spot if held is not None and held.spot is not None else bool(entry and entry.spot)
    return replace(
        asked,
        price=asked.price or (entry.price if entry else "") or (held.price if held else ""),
        balance=asked.balance or _left(home, entry, held, of_box, now_unix),
        spot=asked.spot or spot,
        disk_gb=asked.disk_gb or (held.disk_gb if held else {}),
    )


def _left(home: Home, entry: BoxEntry | None, held: Lease | None, leases: list[Lease], now_unix: float) -> str:
    """Compute the account's remaining balance: the newest statement, less what this box has cost since."""
    told = held.balance if held else None
    if entry and entry.balance and (told is None or entry.balance_unix > told.told_unix):
        told = Balance(Money.parse(entry.balance), entry.balance_unix)
    if told is None:
        return ""
    left = balance_left(told, leases, _facts(home, leases), now_unix)
    currency, amount = (left or told.amount).amounts[0]
    return f"{amount.quantize(Decimal('0.0001')).normalize():f}{currency}"


def _facts(home: Home, leases: list[Lease]) -> LeaseFacts:
    try:
        return facts_of(home, leases[0]) if leases else LeaseFacts()
    except LeaseholdError:
        return LeaseFacts()  # a platform with missing facts still has its price
