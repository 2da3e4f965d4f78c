"""Settle an intent without an answer: find the box by its label, or prove by a complete list that none was made."""

from __future__ import annotations

from leasehold.errors import LandlordError, Refusal
from leasehold.ledger import rentals as book
from leasehold.model.lease.box import BoxEntry
from leasehold.model.lease.rental import Rental, RentalState
from leasehold.model.run.note import Note
from leasehold.platforms.landlords.market import Holding, Kind, State

from .desk import Desk, patiently, why
from .states import note_holding

SETTLE_S = 90.0  # lists of landlords lag behind their creates; a create that takes longer than this was given up
_LOOK_EVERY_S = 10.0


def settle_all(desk: Desk) -> None:
    """Settle every intent of this home that has no answer; refuse as long as one stays unknown."""
    for rental in book.rentals(desk.ledger, RentalState.INTENDED):
        settle(desk, rental)


def settle(desk: Desk, rental: Rental) -> Rental:
    """Return the rental held or proven absent; refuse where that stays unknown, for then nothing may be rented."""
    said = f"asking {rental.market} whether the box of an earlier request was made ({rental.label})"
    desk.report(Note("rent", said, {"label": rental.label}))
    while True:
        read_unix = desk.clock()
        try:
            listed = patiently(desk, desk.open(rental.market).holdings)
        except LandlordError as error:
            raise unsettled(rental, why(error)) from None
        found = labelled(listed, rental.label)
        if found:
            return adopt(desk, rental, found[0], "found by its label")
        now = next(one for one in book.rentals(desk.ledger) if one.label == rental.label)
        if now.state is not RentalState.INTENDED:
            return now
        left_s = rental.asked_unix + SETTLE_S - read_unix
        if left_s <= 0:
            book.absent(desk.ledger, rental, "its complete list, read after the settling time, does not show it")
            desk.report(Note("rent", f"{rental.market} made no box for {rental.label}: its complete list has none"))
            return next(one for one in book.rentals(desk.ledger) if one.label == rental.label)
        desk.sleep(min(left_s + 0.1, _LOOK_EVERY_S))


def labelled(listed: tuple[Holding, ...], label: str) -> list[Holding]:
    """List the boxes under a label that are not gone."""
    return [one for one in listed if one.kind is Kind.BOX and one.label == label and one.state is not State.GONE]


def adopt(desk: Desk, rental: Rental, holding: Holding, how: str) -> Rental:
    """Record a box that the landlord made for an intent, with its lease since it bills."""
    since = holding.made_unix if holding.made_unix is not None else rental.asked_unix
    found = book.Made(holding.id, how, min(since, desk.clock()), entry_for(desk, rental))
    held = book.made(desk.ledger, rental, found)
    note_holding(desk, held, holding)
    if how:
        next_step = f"lease down {held.box} gives it back" + (f"; it was rented for {held.run}" if held.run else "")
        text = f"{held.market} made {held.box} ({holding.id}) for an earlier request; it bills and is on your books"
        desk.report(Note("adopted", f"{text}. {next_step}", {"lease": held.lease, "box": held.box}))
    return held


def entry_for(desk: Desk, rental: Rental) -> BoxEntry:
    """Return the line of the box book for a rental, without its name."""
    profile = desk.home.shelf().load(rental.platform)
    path = profile.state_tier.path
    folder = path.rstrip("/") + "/leasehold" if path.startswith("/") else ""
    identity = str(desk.home.path / "rent" / "id_ed25519")
    return BoxEntry("", "", profile.id, rental.price, folder, identity=identity, spot=rental.spot)


def unsettled(rental: Rental, seen: str) -> Refusal:
    """Return the refusal while it is unknown whether an earlier request made a box."""
    return Refusal(
        "rent.unsettled",
        f"whether {rental.market} made a box for {rental.label} is unknown, and it may bill; nothing else was rented",
        seen=seen,
        hint="the same command again asks once more; lease landlord sweep shows everything that bills",
    )
