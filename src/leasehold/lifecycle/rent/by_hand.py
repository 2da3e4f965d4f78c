"""Acts that a person asks for by hand: adopt a box that no lease holds, delete storage, start a parked box again."""

from __future__ import annotations

from decimal import Decimal

from leasehold.errors import Refusal, UserError
from leasehold.ledger import books
from leasehold.ledger import rentals as book
from leasehold.lifecycle.approval.phrase import Ask, require_phrase
from leasehold.lifecycle.rentals.desk import Desk, patiently
from leasehold.lifecycle.rentals.markets import profile_of
from leasehold.lifecycle.rentals.settle import adopt
from leasehold.lifecycle.rentals.states import note_holding, note_resumed
from leasehold.model.lease.lease import Lease
from leasehold.model.lease.rental import Rental, RentalState, home_of
from leasehold.model.run.note import Note
from leasehold.model.values.money import HourlyPrice
from leasehold.platforms.landlords.market import Act, Holding, Kind, State

_GOING_S = 300.0
_LOOK_EVERY_S = 5.0


def adopt_box(desk: Desk, market: str, id: str) -> Rental:
    """Put a box that Leasehold asked for on this home's books, so that `lease down` and its gate apply to it."""
    holding = _found(desk, market, id)
    if holding.kind is not Kind.BOX or not home_of(holding.label):
        raise Refusal(
            "landlord.not_ours",
            f"{market} {id} was not made by Leasehold (label {holding.label!r}); it is never touched",
            hint="end it where it was made, or in the console",
        )
    known = next((one for one in book.rentals(desk.ledger) if one.label == holding.label), None)
    if known is None:
        rate = str(holding.rate) if holding.rate is not None else ""
        made = holding.made_unix if holding.made_unix is not None else desk.clock()
        known = Rental(holding.label, market, profile_of(desk.home, market).id, RentalState.INTENDED, made, "", rate)
        book.intend(desk.ledger, known, adopted=True)
        known = next(one for one in book.rentals(desk.ledger) if one.label == holding.label)
    if known.state is not RentalState.HELD:
        return adopt(desk, known, holding, "adopted by a person")
    if not books.find_lease(desk.ledger, known.lease).open:
        desk.ledger.append("lease_reopened", lease=known.lease, seen=f"{market} lists it as {holding.raw_state}")
        desk.report(Note("adopted", f"{known.lease} is open again: {market} still has {known.box}"))
    note_holding(desk, known, holding)
    return known


def delete_storage(desk: Desk, market: str, id: str, ask: Ask) -> None:
    """Delete storage that a released box left, by an approval of its own; refuse while results are missing at home."""
    holding = _found(desk, market, id)
    if holding.kind is Kind.BOX:
        raise UserError("landlord.is_a_box", f"{market} {id} is a box", hint="lease down gives a box back")
    lease = _left_by(desk, id)
    if lease is None:
        raise Refusal(
            "landlord.not_ours",
            f"{market} {id} was not left by a box of this home; it is never touched",
            hint="delete it in the console, if it is yours",
        )
    owed = [run.run for run in books.runs(desk.ledger, lease=lease.id) if run.seq and run.owed()]
    if owed:
        raise Refusal(
            "landlord.results_missing",
            f"results of {', '.join(owed)} are not home, and {id} may hold the only copy; nothing was deleted",
            hint=f"lease pull {owed[0]}, or give them up: lease waive {owed[0]}",
        )
    size = f", {holding.size_gb:g} GB" if holding.size_gb else ""
    require_phrase(ask, f"{id}{size} and all that lies on it is gone for good. To approve", f"delete {id}")
    desk.ledger.append("storage_delete_asked", lease=lease.id, market=market, id=id)
    until = desk.clock() + _GOING_S
    while True:
        done = patiently(desk, lambda: desk.open(market).act(id, Act.DELETE_STORAGE))
        if patiently(desk, lambda: desk.open(market).holding(id)) is None:
            break
        if desk.clock() > until:
            raise Refusal("landlord.not_gone", f"{market} still lists {id}; it goes on billing", seen=f"asked: {done}")
        desk.sleep(_LOOK_EVERY_S)
    _forget(desk, lease, id)


def resume_box(desk: Desk, lease: Lease, ask: Ask, bid: HourlyPrice | None = None) -> Rental:
    """Start a parked box again, after a typed yes: its compute bills from then."""
    rental = book.rental_of_lease(desk.ledger, lease.id)
    if rental is None or not lease.open:
        raise UserError("landlord.not_rented", f"{lease.box} was not rented through an API", hint="start it by hand")
    price = f"up to {bid}" if bid is not None else f"at {lease.price}" if lease.price else "at its price"
    require_phrase(ask, f"{lease.box} bills {price} again once it starts. To approve", f"resume {lease.box}")
    market = desk.open(rental.market)
    desk.ledger.append("resume_asked", lease=lease.id, bid=str(bid or ""))
    if bid is not None:
        patiently(desk, lambda: market.act(rental.holding, Act.RAISE_BID, bid))
    patiently(desk, lambda: market.act(rental.holding, Act.RESUME))
    holding = patiently(desk, lambda: market.holding(rental.holding))
    note_holding(desk, rental, holding)
    now = books.find_lease(desk.ledger, lease.id)
    if holding is not None and holding.state in (State.STARTING, State.RUNNING) and now.parked:
        note_resumed(desk, now, f"{rental.market} reports it {holding.raw_state}")
    return rental


def _found(desk: Desk, market: str, id: str) -> Holding:
    holding = patiently(desk, lambda: desk.open(market).holding(id))
    if holding is None or holding.state is State.GONE:
        raise UserError("landlord.no_holding", f"{market} has no {id} in this account", hint="lease landlord sweep")
    return holding


def _left_by(desk: Desk, id: str) -> Lease | None:
    """Return the open lease whose released box left this storage."""
    for event in desk.ledger.events(kind="lease_left"):
        lease = books.find_lease(desk.ledger, event.lease)
        if id in event.data["holdings"] and lease.open:
            return lease
    return None


def _forget(desk: Desk, lease: Lease, id: str) -> None:
    """Take deleted storage off the meter; the lease is closed with the last of it."""
    events = [event.data["holdings"] for event in desk.ledger.events(lease=lease.id, kind="lease_left")]
    left = [one for one in events[-1] if one != id]
    desk.ledger.append("lease_left", lease=lease.id, holdings=left)
    if not left:
        desk.ledger.append("lease_closed", lease=lease.id, verb="delete-storage")
        desk.report(Note("closed", f"{lease.id} is closed: nothing of it bills any more"))
        return
    rental = book.rental_of_lease(desk.ledger, lease.id)
    rates = [one.rate for one in desk.open(rental.market).holdings() if one.id in left] if rental else []
    known = [rate for rate in rates if rate is not None]
    if known and len(known) == len(left) and len({rate.currency for rate in known}) == 1:
        total = HourlyPrice(sum((rate.amount for rate in known), Decimal(0)), known[0].currency)
        desk.ledger.append("lease_rated", lease=lease.id, rate=str(total))
