"""Wait until a rented box answers over ssh: report what its landlord says, then meet it and pin its host key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from leasehold.errors import BoxError, LandlordError, LinkError
from leasehold.kit.text.units import ago
from leasehold.ledger import books, box_book
from leasehold.lifecycle.box.first_contact import Contact, meet
from leasehold.lifecycle.rentals.desk import Desk, patiently, why
from leasehold.lifecycle.rentals.settle import SETTLE_S
from leasehold.lifecycle.rentals.states import note_address, note_holding, note_started, why_words
from leasehold.model.lease.box import BoxEntry
from leasehold.model.lease.rental import Rental
from leasehold.model.run.note import Note
from leasehold.model.values.money import HourlyPrice
from leasehold.platforms.landlords.market import Holding, State

LIMIT_S = 20 * 60.0
_LOOK_EVERY_S = 5.0
_NOT_YET = ("link.refused", "link.timeout", "link.turned_away", "link.lost", "link.no_such_host", "link.auth_failed")

Meet = Callable[[BoxEntry], Contact]


def wait_ready(desk: Desk, rental: Rental, limit_s: float = LIMIT_S, contact: Meet | None = None) -> BoxEntry:
    """Return the box's line in the book once it was met; raise if it fails, goes away or stays silent too long."""
    contact = contact or (lambda entry: meet(desk.home, entry))
    began, said, lost = desk.clock(), "", "it was not asked yet"
    starting: tuple[HourlyPrice, float] | None = None  # what it bills while it starts, and when that was last read
    usual = f"; usually {ago(seconds)}" if (seconds := _usual_s(desk, rental)) else ""
    while desk.clock() - began < limit_s:
        holding = _ask(desk, rental)
        state = _words(holding) if holding is not None else "not in its lists yet"
        if state != said:
            text = f"{rental.box}: {rental.market} says {state} ({ago(desk.clock() - began)} so far{usual})"
            desk.report(Note("rent_wait", text, {"box": rental.box, "state": state}))
            said = state
        if holding is not None:
            _refuse_dead(desk, rental, holding)
            starting = _carry(desk, rental, holding, starting)
        if holding is not None and holding.state is State.RUNNING and holding.address is not None:
            note_address(desk, rental, holding)
            entry = box_book.find(desk.ledger, rental.box)
            assert entry is not None
            try:
                return _met(desk, rental, entry, contact(entry), desk.clock() - began)
            except LinkError as error:
                if error.code not in _NOT_YET:
                    raise
                lost = error.message
        elif holding is None and desk.clock() - began > SETTLE_S:
            note_holding(desk, rental, None)
            raise BoxError("rent.gone", f"{rental.market} no longer has {rental.box} ({rental.holding})")
        desk.sleep(_LOOK_EVERY_S)
    raise BoxError(
        "rent.silent",
        f"{rental.box} did not answer over ssh within {ago(limit_s)}; it bills",
        seen=f"{rental.market} says {said}; {lost}",
        hint=f"lease down {rental.box} gives it back; the same lease run goes on waiting for it",
    )


def _ask(desk: Desk, rental: Rental) -> Holding | None:
    try:
        return patiently(desk, lambda: desk.open(rental.market).holding(rental.holding))
    except LandlordError as error:
        raise BoxError(
            "rent.unasked",
            f"{rental.market} cannot be asked about {rental.box}; it bills",
            seen=why(error),
            hint="the same lease run goes on with it",
        ) from None


def _carry(
    desk: Desk, rental: Rental, holding: Holding, starting: tuple[HourlyPrice, float] | None
) -> tuple[HourlyPrice, float] | None:
    """Carry the landlord's word into the ledger; return what a box that still starts bills."""
    note_holding(desk, rental, holding)
    if holding.state is State.STARTING and holding.rate is not None:
        return holding.rate, desk.clock()
    if holding.state is State.RUNNING and starting is not None:
        lease = books.find_lease(desk.ledger, rental.lease)
        if not any(change.what == "state" for change in lease.changes):  # its first start: it did not bill otherwise
            note_started(desk, lease, *starting, holding)
        return None
    return starting


def _words(holding: Holding) -> str:
    more = f": {holding.note}" if holding.note else ""
    return f"{holding.state.value} ({holding.raw_state}){more}"


def _refuse_dead(desk: Desk, rental: Rental, holding: Holding) -> None:
    """Raise where waiting is in vain: it failed, is gone, or was stopped by somebody else."""
    if holding.state in (State.STARTING, State.RUNNING, State.UNKNOWN):
        return
    note_holding(desk, rental, holding)
    reason = why_words(holding) or holding.note or "it gives no reason"
    raise BoxError(
        "rent.failed",
        f"{rental.box} is {holding.state.value} before it ever answered",
        seen=f"{rental.market} says {holding.raw_state}: {reason}",
        hint=f"lease down {rental.box} gives it back, then lease run takes another",
    )


def _met(desk: Desk, rental: Rental, entry: BoxEntry, contact: Contact, waited_s: float) -> BoxEntry:
    reading = contact.reading
    known = replace(entry, fingerprint=contact.fingerprint, python=reading.python, flavour=reading.flavour.value)
    if known != entry:
        desk.ledger.append("box_changed", **known.as_dict())
    desk.ledger.append("rent_ready", lease=rental.lease, label=rental.label, market=rental.market, after_s=waited_s)
    text = f"{rental.box} answers after {ago(waited_s)}; host key {contact.fingerprint} pinned"
    desk.report(Note("host_pinned", text, {"box": rental.box, "fingerprint": contact.fingerprint}))
    return known


def _usual_s(desk: Desk, rental: Rental) -> float:
    """Return how long this landlord's boxes took before, or what its profile says."""
    took = [
        float(event.data["after_s"])
        for event in desk.ledger.events(kind="rent_ready")
        if event.data.get("market") == rental.market
    ]
    return sorted(took)[len(took) // 2] if took else desk.home.shelf().load(rental.platform).boot_s


def is_met(desk: Desk, rental: Rental) -> bool:
    """Return whether this home ever reached the box."""
    return any(desk.ledger.events(lease=rental.lease, kind="rent_ready"))
