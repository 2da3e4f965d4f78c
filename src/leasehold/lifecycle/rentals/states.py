"""Carry what a landlord says of a rented box into the ledger: its state, what it bills, why it stopped, its end."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from leasehold.ledger import books, box_book
from leasehold.model.lease.lease import Lease
from leasehold.model.lease.rental import Rental
from leasehold.model.run.note import Note
from leasehold.model.values.money import HourlyPrice
from leasehold.platforms.landlords.market import Holding, State, Why

from .desk import Desk

_WORDS = {
    Why.OUTBID: "somebody bid more",
    Why.PREEMPTED: "the landlord took the capacity back",
    Why.BALANCE: "the account has no money left",
    Why.CONTRACT_END: "its contract ended",
    Why.LANDLORD: "the landlord or the box itself stopped it",
}
_TAKEN = (Why.OUTBID, Why.PREEMPTED)
_LIVE = ("running", "stopping", "unknown")


def note_holding(desk: Desk, rental: Rental, holding: Holding | None) -> None:
    """Record a landlord's present word about a held box; None is its proof that the box is gone."""
    lease = books.find_lease(desk.ledger, rental.lease)
    if not lease.open:
        return
    if holding is None or holding.state is State.GONE:
        _note_gone(desk, rental, lease, holding)
        return
    note_rate(desk, lease, holding)
    if holding.state is State.PARKED and not lease.parked:
        _note_parked(desk, rental, lease, holding)
    elif holding.state is State.RUNNING and (lease.parked or lease.off_unknown):
        note_resumed(desk, lease, f"{rental.market} reports it running")
        note_rate(desk, books.find_lease(desk.ledger, lease.id), holding)
    if holding.address is not None:
        note_address(desk, rental, holding)


def note_rate(desk: Desk, lease: Lease, holding: Holding) -> None:
    """Record what the whole lease bills an hour now, if the landlord tells.

    A box that is about to change its state bills more a moment later, unseen: only a state that lasts may lower it.
    """
    rate = holding.rate
    if rate is None or str(rate) == lease.rate:
        return
    if holding.state in (State.RUNNING, State.PARKED) or rate.amount >= _known_rate(lease):
        desk.ledger.append("lease_rated", lease=lease.id, rate=str(rate))


def note_resumed(desk: Desk, lease: Lease, said: str) -> None:
    """Record that a box runs again or starts to: it bills the most that it was ever seen to bill, until it is read."""
    full = max((_amount(str(change.value)) for change in lease.changes if change.what == "rate"), default=Decimal(0))
    currency = HourlyPrice.parse(lease.price or lease.rate).currency if lease.price or lease.rate else ""
    full = max(full, _amount(lease.price))
    with desk.ledger.transaction() as append:
        append("lease_resumed", lease.id, "", {"seen": said})
        if currency and lease.rate:
            append("lease_rated", lease.id, "", {"rate": str(HourlyPrice(full, currency))})


def note_started(desk: Desk, lease: Lease, starting: HourlyPrice, until_unix: float, running: Holding) -> None:
    """Correct the meter once a box runs: until its last sighting before that, it billed what a starting box bills."""
    if running.rate is None or starting.amount >= running.rate.amount or until_unix <= lease.opened_unix:
        return
    with desk.ledger.transaction() as append:
        append("lease_rated", lease.id, "", {"rate": str(starting), "since_unix": lease.opened_unix})
        append("lease_rated", lease.id, "", {"rate": str(running.rate), "since_unix": until_unix})


def _known_rate(lease: Lease) -> Decimal:
    return max(_amount(lease.rate), _amount(lease.price) if not lease.parked else Decimal(0))


def _amount(price: str) -> Decimal:
    return HourlyPrice.parse(price).amount if price else Decimal(0)


def note_address(desk: Desk, rental: Rental, holding: Holding) -> None:
    """Record the address for screens, and for a time when the landlord cannot be asked."""
    entry = box_book.find(desk.ledger, rental.box)
    address = f"ssh:{holding.address}" if holding.address else ""
    if entry is not None and entry.address != address:
        desk.ledger.append("box_changed", **replace(entry, address=address).as_dict())


def why_words(holding: Holding | None) -> str:
    """Say why a box is not running; empty if the landlord gives no reason."""
    return _WORDS[holding.why] if holding is not None and holding.why is not None else ""


def _note_parked(desk: Desk, rental: Rental, lease: Lease, holding: Holding) -> None:
    reason = why_words(holding)
    said = f"{rental.market} reports it {holding.raw_state}" + (f": {reason}" if reason else "")
    desk.ledger.append("lease_parked", lease=lease.id, verb="", said=said)
    _note_taken(desk, rental, lease, holding)
    rate = f"; it goes on billing {holding.rate}" if holding.rate is not None and holding.rate.amount else ""
    desk.report(Note("warning", f"{lease.box}: {said}{rate}", {"lease": lease.id}))


def _note_gone(desk: Desk, rental: Rental, lease: Lease, holding: Holding | None) -> None:
    reason = why_words(holding)
    said = f"{rental.market} no longer has it" + (f": {reason}" if reason else "")
    _note_taken(desk, rental, lease, holding)
    with desk.ledger.transaction() as append:
        append("lease_closed", lease.id, "", {"verb": "", "landlord": said})
        append("rent_ended", lease.id, "", {"label": rental.label, "how": said})
    owed = [run.run for run in books.runs(desk.ledger, lease=lease.id) if run.seq and run.owed()]
    lost = f"; never came home from it: {', '.join(owed)}" if owed else ""
    desk.report(Note("warning", f"{lease.box}: {said}{lost}", {"lease": lease.id, "owed": owed}))


def _note_taken(desk: Desk, rental: Rental, lease: Lease, holding: Holding | None) -> None:
    """Record a preemption on every run that was at work there: the box itself may have had no time to."""
    if holding is None or holding.why not in _TAKEN:
        return
    for run in books.runs(desk.ledger, lease=lease.id):
        if run.state in _LIVE:
            by = f"{rental.market}: {why_words(holding)}"
            desk.ledger.append("preempt_noticed", lease=lease.id, run=run.run, by=by, grace_s=0.0)
