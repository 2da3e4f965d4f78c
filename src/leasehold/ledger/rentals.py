"""Rentals in the ledger: the intent before the create, what the landlord answered, and the end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from leasehold.model.lease.box import PERSON, BoxEntry
from leasehold.model.lease.rental import Rental, RentalState

from .projection import rental_from_row
from .store import Ledger


def rentals(ledger: Ledger, *states: RentalState) -> list[Rental]:
    """List rentals in the order they were asked for, of these states or of all."""
    found = [rental_from_row(row) for row in ledger.query("SELECT * FROM rentals ORDER BY asked, label")]
    return [rental for rental in found if not states or rental.state in states]


def rental_of_lease(ledger: Ledger, lease: str) -> Rental | None:
    """Return the rental that a lease holds, if we rented its box."""
    rows = ledger.query("SELECT * FROM rentals WHERE lease = ?", lease)
    return rental_from_row(rows[0]) if rows else None


def rental_of_box(ledger: Ledger, box: str) -> Rental | None:
    """Return the newest rental under a box's name, if we rented it."""
    rows = ledger.query("SELECT * FROM rentals WHERE box = ? ORDER BY asked DESC LIMIT 1", box)
    return rental_from_row(rows[0]) if rows else None


def intend(ledger: Ledger, rental: Rental, **more: Any) -> None:
    """Record, on disk before this returns, that a box is about to be asked for."""
    asked = {"market": rental.market, "platform": rental.platform, "price": rental.price, "spot": rental.spot}
    data = {"label": rental.label, **asked, "approval": rental.approval, **more}
    ledger.append("rent_intended", lease=rental.label, run=rental.run, **data)


@dataclass(frozen=True)
class Made:
    """A box that the landlord holds for an intent."""

    holding: str
    how: str  # answered, or how it was found
    since_unix: float  # since when it bills
    entry: BoxEntry  # for the box book; its name is chosen when it is recorded


def made(ledger: Ledger, rental: Rental, found: Made) -> Rental:
    """Record that the landlord holds a box for an intent: the rental, the box and its open lease in one transaction."""
    with ledger.transaction() as append:
        known = next(one for one in rentals(ledger) if one.label == rental.label)
        if known.state is RentalState.HELD:  # another process of this home was faster
            return known
        count = int(ledger.query("SELECT count(*) FROM rentals WHERE market = ? AND box <> ''", rental.market)[0][0])
        box = _free_name(ledger, rental.market, count + 1)
        lease = f"{box}-{int(ledger.query('SELECT count(*) FROM leases')[0][0]) + 1}"
        held = replace(known, state=RentalState.HELD, holding=found.holding, box=box, lease=lease)
        entry = replace(
            found.entry, name=box, added_unix=found.since_unix, platform_by=PERSON, landlord=rental.market,
            holding=found.holding,
        )  # fmt: skip
        what = {"label": rental.label, "holding": found.holding, "box": box, "how": found.how}
        append("rent_made", lease, rental.run, what)
        append("box_added", "", "", entry.as_dict())
        place = {"box": box, "platform": rental.platform, "root": entry.root}
        append("lease_opened", lease, "", {**place, "price": rental.price, "since_unix": found.since_unix})
        if rental.spot:
            append("lease_spot", lease, "", {"spot": True})
    return held


def absent(ledger: Ledger, rental: Rental, how: str) -> None:
    """Record that no box was made: the landlord refused, or its complete list proves it."""
    ledger.append("rent_absent", lease=rental.label, run=rental.run, label=rental.label, how=how)


def ended(ledger: Ledger, rental: Rental, how: str) -> None:
    """Record that the landlord no longer has the box."""
    ledger.append("rent_ended", lease=rental.lease or rental.label, label=rental.label, how=how)


def _free_name(ledger: Ledger, market: str, number: int) -> str:
    """Return the first unused name of a rented box; a name is never used for two boxes."""
    taken = {str(name) for (name,) in ledger.query("SELECT box FROM leases UNION SELECT name FROM boxes")}
    while f"{market}-{number}" in taken:
        number += 1
    return f"{market}-{number}"
