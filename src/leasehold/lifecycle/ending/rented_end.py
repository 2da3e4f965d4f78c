"""The end of a rented box: its bill is read back, and what goes on billing without it stays on the meter."""

from __future__ import annotations

import time
from decimal import Decimal

from leasehold.errors import LandlordError
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.money.metering import cost_and_rate
from leasehold.lifecycle.rentals.api_landlord import ApiLandlord
from leasehold.lifecycle.rentals.desk import why
from leasehold.lifecycle.rentals.markets import rented_landlord
from leasehold.model.lease.lease import Lease
from leasehold.model.run.note import Note, Report
from leasehold.model.values.money import HourlyPrice, Money
from leasehold.platforms.contract import BoxState
from leasehold.platforms.landlords.market import Holding

_NEAR = Decimal("0.01")


def excuse(home: Home, lease: Lease) -> str:
    """Say why a rented box that cannot be reached may still be judged; empty if it may not.

    Either it never answered, so nothing of ours is on it; or its landlord reports it off, so that nothing was written
    since the receipts.
    """
    landlord = rented_landlord(home, lease)
    if landlord is None:
        return ""
    met = any(home.ledger.events(lease=lease.id, kind="rent_ready")) or any(
        home.ledger.events(lease=lease.id, kind="machine_met")
    )
    if not met and not any(run.seq for run in books.runs(home.ledger, lease=lease.id)):
        return "it never answered since this home rented it: nothing of yours is on it"
    if landlord.poll(lease) is BoxState.PARKED:
        return f"{landlord.rental.market} reports it off: nothing was written on it since"
    return ""


def leave_behind(home: Home, lease: Lease, landlord: ApiLandlord, report: Report) -> bool:
    """Return whether something of a released box goes on billing; then its lease stays open and counts that."""
    try:
        left = landlord.left()
    except LandlordError as error:
        left = []
        text = f"whether storage of {lease.box} goes on billing is unknown: {why(error)}. Look: lease landlord sweep"
        report(Note("unknown", text))
    if not left:
        return False
    rate = _sum(left)
    with home.ledger.transaction() as append:
        append("lease_parked", lease.id, "", {"verb": "", "said": "the box is gone; its storage goes on billing"})
        append("lease_left", lease.id, "", {"holdings": [one.id for one in left]})
        append("rent_ended", lease.id, "", {"label": landlord.rental.label, "how": "released"})
        if rate is not None:
            append("lease_rated", lease.id, "", {"rate": str(rate)})
    for one in left:
        cost = f" ({one.rate})" if one.rate is not None else ""
        text = f"still billed: {one.id}{cost}; lease landlord delete {landlord.rental.market} {one.id} ends it"
        report(Note("danger", f"  {text}"))
    return True


def say_bill(home: Home, lease: Lease, landlord: ApiLandlord, report: Report) -> None:
    """Read the landlord's bill back and compare it with our own meter; record both."""
    metered = cost_and_rate(home, books.find_lease(home.ledger, lease.id), time.time())[0]
    billed = landlord.bill(lease)
    market = landlord.rental.market
    if billed is None:
        report(Note("bill", f"{market} tells no bill for {lease.box}; our meter says {metered.spelled}"))
        return
    home.ledger.append("bill_read", lease=lease.id, billed=billed.as_dict(), metered=metered.as_dict())
    text = f"{market} billed {billed.spelled} for {lease.box}; our meter says {metered.spelled}"
    if _differs(billed, metered):
        report(Note("warning", f"{text}: they differ by more than 1 %"))
    else:
        report(Note("bill", text))


def _differs(billed: Money, metered: Money) -> bool:
    """Return whether the bills differ by more than a hundredth, and by more than a cent."""
    theirs, ours = dict(billed.amounts), dict(metered.amounts)
    return any(
        abs(amount - ours.get(currency, Decimal(0))) > max(_NEAR * amount, _NEAR) for currency, amount in theirs.items()
    )


def _sum(left: list[Holding]) -> HourlyPrice | None:
    """Add up what they bill an hour; None as soon as one is not known, or currencies differ."""
    rates = [one.rate for one in left]
    known = [rate for rate in rates if rate is not None]
    if len(known) < len(rates) or len({rate.currency for rate in known}) != 1:
        return None
    return HourlyPrice(sum((rate.amount for rate in known), Decimal(0)), known[0].currency)
