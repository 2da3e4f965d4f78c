"""Rent one box: settle what is open, a yes, the intent on disk, the create, and what its answer means."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from leasehold.errors import AnswerLost, LandlordError, LandlordSaidNo, NoCapacity, Refusal
from leasehold.kit.text.units import utc_minute
from leasehold.ledger import rentals as book
from leasehold.lifecycle.rentals.desk import Desk, patiently, why
from leasehold.lifecycle.rentals.settle import entry_for, settle, settle_all
from leasehold.lifecycle.rentals.states import note_holding
from leasehold.model.lease.rental import Rental, RentalState, label_of
from leasehold.model.run.note import Note
from leasehold.model.values.money import HourlyPrice
from leasehold.platforms.landlords.market import RentOrder

from .allowance import Approve, RentAsk, Yes, standing_yes
from .offers import Priced

_ENDS_LATER_S = 24 * 3600.0
_ENDS_UNKNOWN_S = 7 * 86400.0


@dataclass(frozen=True)
class RentWish:
    """What to rent for, and within which limits."""

    run: str
    markets: tuple[str, ...]
    public_key: str = ""
    most: HourlyPrice | None = None  # a person's ceiling; None: the price of the offer that was shown
    ends_after_s: float = 0.0  # the landlord's own dead man's switch; 0: from the forecast
    passed_over: list[str] = field(default_factory=list)  # why offers were not taken, for the last refusal


def rent_one(desk: Desk, wish: RentWish, offers: Sequence[Priced], approve: Approve) -> Rental:
    """Rent one box from the first offer that is still there; a second box is never asked for while one is unknown."""
    settle_all(desk)
    if held := rented_for(desk, wish.run):
        return held
    yes: tuple[RentAsk, Yes] | None = None
    for priced in offers:
        if priced.price is None:
            wish.passed_over.append(f"{words(priced)}: its API tells no price; --price says what the console shows")
            continue
        if yes is None or not _within(priced.price, yes[0].most):
            asked = RentAsk(wish.run, wish.markets, wish.most or priced.price)
            if not _within(priced.price, asked.most):
                continue
            standing = standing_yes(desk.home, asked, desk.clock())
            if standing is not None:
                text = f"covered by the standing approval of {standing.by}: up to {asked.most}"
                desk.report(Note("approved", text))
            yes = asked, standing or approve(asked)
        rental = _try_offer(desk, wish, priced, yes[1])
        if rental is not None:
            return rental
    seen = "\n".join(wish.passed_over) or "no offer fits the job and the limits"
    raise Refusal(
        "rent.no_offer",
        "no landlord has a box that fits now; nothing was rented",
        seen=seen,
        hint="lease offers shows what there is; lease run … --wait 6h --max-price 2USD/h waits for one",
    )


def rented_for(desk: Desk, run: str) -> Rental | None:
    """Return the box that was rented for a run and is still held."""
    held = [one for one in book.rentals(desk.ledger, RentalState.HELD) if one.run == run and run]
    return held[-1] if held else None


def _within(price: HourlyPrice, most: HourlyPrice) -> bool:
    return price.currency == most.currency and price.amount <= most.amount


def _try_offer(desk: Desk, wish: RentWish, priced: Priced, yes: Yes) -> Rental | None:
    """Ask for one offer; None if it is proven that no box was made."""
    offer = priced.offer
    label = label_of(desk.ledger.home_id, secrets.token_hex(5))
    ends = _ends_unix(desk, wish, priced)
    spot = offer.spot
    rental = Rental(
        label, offer.market, priced.profile.id, RentalState.INTENDED, desk.clock(), wish.run, str(priced.price), spot,
        approval=yes.id,
    )  # fmt: skip
    order = RentOrder(
        label,
        offer,
        disk_gb=priced.disk_gb,
        public_key=wish.public_key,
        ends_unix=ends,
        bid=priced.price if spot else None,
    )
    book.intend(desk.ledger, rental, offer=_facts(priced), ends_unix=ends, yes=yes.as_dict())
    desk.report(Note("rent", f"asking {words(priced)} as {label}", {"label": label}))
    rental = next(one for one in book.rentals(desk.ledger) if one.label == label)
    try:
        id = patiently(desk, lambda: desk.open(offer.market).rent(order))
    except AnswerLost as error:
        desk.report(Note("unknown", f"{why(error)}; nothing else is rented until that is known"))
        settled = settle(desk, rental)
        return settled if settled.state is RentalState.HELD else None
    except LandlordError as error:
        book.absent(desk.ledger, rental, f"refused: {error.code}")
        wish.passed_over.append(f"{words(priced)}: {why(error)}")
        desk.report(Note("candidate", f"{offer.market} has it no more: {why(error)}", {"label": label}))
        if not isinstance(error, NoCapacity | LandlordSaidNo):
            raise
        return None
    return _answered(desk, rental, id)


def _answered(desk: Desk, rental: Rental, id: str) -> Rental:
    """Record the landlord's answer; the lease counts from the moment of the request."""
    found = book.Made(id, "answered", rental.asked_unix, entry_for(desk, rental))
    held = book.made(desk.ledger, rental, found)
    text = f"{held.market} rents {held.box} ({id}) to you at {held.price}; it bills from now"
    desk.report(Note("rented", text, {"lease": held.lease, "box": held.box, "holding": id}))
    try:
        holding = patiently(desk, lambda: desk.open(held.market).holding(id))
    except LandlordError as error:
        desk.report(Note("warning", f"what it bills could not be read back yet: {why(error)}"))
        return held
    if holding is None:  # a landlord may lag behind its create: absence right after it proves nothing
        return held
    note_holding(desk, held, holding)
    if holding.ends_unix is not None:
        text = f"{held.market} ends {held.box} by itself on {utc_minute(holding.ends_unix)}: bring results home before"
        desk.report(Note("danger", text, {"ends_unix": holding.ends_unix}))
        desk.ledger.append("lease_ends", lease=held.lease, ends_unix=holding.ends_unix)
    else:
        text = f"{held.market} never ends {held.box} by itself: it bills until you give it back, or the money is gone"
        desk.report(Note("danger", text))
    return held


def _ends_unix(desk: Desk, wish: RentWish, priced: Priced) -> float:
    """Return when the landlord should end the box by itself: well behind the end of the job, where that is known."""
    ends_s = priced.planned.sheet.forecast.ends_s
    later = _ENDS_UNKNOWN_S if ends_s is None else max(2 * ends_s, ends_s + _ENDS_LATER_S)
    return desk.clock() + (wish.ends_after_s or later)


def words(priced: Priced) -> str:
    """Name an offer in a line."""
    offer = priced.offer
    where = f" in {offer.region}" if offer.region else ""
    price = priced.price if priced.price is not None else "a price that its API does not tell"
    return f"{offer.market} for {offer.count} x {offer.card}{where}{' (spot)' if offer.spot else ''} at {price}"


def _facts(priced: Priced) -> dict[str, object]:
    offer = priced.offer
    place = {"id": offer.id, "card": offer.card, "count": offer.count, "region": offer.region}
    return {**place, "price": str(priced.price)}
