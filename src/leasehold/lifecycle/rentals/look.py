"""Compare what landlords hold for us with what the ledger holds: what bills although nobody watches it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from enum import Enum
from typing import Any

from leasehold.errors import LandlordError, LeaseholdError
from leasehold.kit.text.safe_text import one_line
from leasehold.ledger import books
from leasehold.ledger import rentals as book
from leasehold.model.lease.rental import Rental, RentalState, home_of
from leasehold.model.values.money import HourlyPrice
from leasehold.model.values.wording import ago
from leasehold.platforms.landlords.market import Account, Holding, Kind, State

from .balances import balance_text, note_balance
from .desk import Desk, patiently, why
from .settle import adopt
from .states import note_holding

_LAG_S = 600.0


class Whose(Enum):
    """To whom a holding belongs, as far as this home knows."""

    HELD = "held"  # an open lease of this home counts it
    ORPHAN = "orphan"  # this home asked for it, and no lease holds it
    OTHER_HOME = "other home"  # another home of Leasehold asked for it
    STRANGER = "not ours"  # nothing of Leasehold made it


@dataclass(frozen=True)
class Found:
    """One holding, and whose it is."""

    market: str
    holding: Holding
    whose: Whose
    lease: str = ""
    read_unix: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json and the cache."""
        one = self.holding
        return {
            "landlord": self.market,
            "id": one.id,
            "kind": one.kind.value,
            "label": one_line(one.label),
            "state": one.state.value,
            "raw_state": one_line(one.raw_state),
            "rate": None if one.rate is None else str(one.rate),
            "made_unix": one.made_unix,
            "whose": self.whose.value,
            "lease": self.lease,
            "of": one.of,
            "read_unix": self.read_unix,
        }


@dataclass(frozen=True)
class Look:
    """What the landlords said, and which of them said nothing: their holdings are unknown."""

    found: tuple[Found, ...]
    unknown: tuple[tuple[str, str], ...] = ()
    accounts: tuple[tuple[str, Account], ...] = ()


@dataclass(frozen=True)
class Told:
    """What one landlord answered; nothing here touches the ledger, so that a thread may ask."""

    held: tuple[Holding, ...] = ()
    account: Account | None = None
    error: str = ""  # why it is unknown


def sort_out(known: Sequence[Rental], leases: Iterable[str], told: tuple[str, Told], now_unix: float) -> list[Found]:
    """Say of each holding of a landlord whose it is. Pure: the ledger's rentals and open leases, and the list in."""
    market, said = told
    mine = [one for one in known if one.market == market]
    own_homes, held_leases = {home_of(one.label) for one in known}, set(leases)
    found = []
    for holding in said.held:
        key = holding.of or holding.id
        rental = next((one for one in mine if one.holding == key or one.label == holding.label), None)
        if holding.state is State.GONE or _just_ended(rental, now_unix):
            continue
        whose, lease = Whose.STRANGER, ""
        if rental is not None and rental.lease in held_leases:
            whose, lease = Whose.HELD, rental.lease
        elif rental is not None or home_of(holding.label) in own_homes - {""}:
            whose = Whose.ORPHAN
        elif home_of(holding.label):
            whose = Whose.OTHER_HOME
        found.append(Found(market, holding, whose, lease, now_unix))
    return found


def ask_all(desk: Desk, markets: Sequence[str], limit_s: float, *, accounts: bool = False) -> dict[str, Told]:
    """Ask every landlord at once what it holds for us; who does not answer in time is unknown."""
    pool = ThreadPoolExecutor(max(1, len(markets)), thread_name_prefix="landlord")
    asked = {name: pool.submit(_ask, desk, name, accounts) for name in markets}
    wait(asked.values(), limit_s)
    pool.shutdown(wait=False, cancel_futures=True)
    late = Told(error=f"no answer within {limit_s:.0f} s")
    return {name: answer.result() if answer.done() else late for name, answer in asked.items()}


def carry_in(desk: Desk, answers: dict[str, Told]) -> Look:
    """Carry what the landlords said into the ledger, adopt what answers an open intent, and sort out the rest."""
    found: list[Found] = []
    for name, told in answers.items():
        if told.error:
            continue
        _carry(desk, name, told)
        leases = [lease.id for lease in books.leases(desk.ledger, only_open=True)]
        found += sort_out(_known(desk), leases, (name, told), desk.clock())
    unknown = tuple((name, told.error) for name, told in answers.items() if told.error)
    accounts = tuple((name, told.account) for name, told in answers.items() if told.account is not None)
    return Look(tuple(found), unknown, accounts)


def _just_ended(rental: Rental | None, now_unix: float) -> bool:
    """Return whether the landlord proved a box gone moments ago: its list may still show the time before."""
    return rental is not None and rental.state is RentalState.ENDED and 0 <= now_unix - rental.ended_unix < _LAG_S


def _known(desk: Desk) -> list[Rental]:
    """Return every rental, and one for this home itself, so that its labels are known although none is recorded."""
    own = Rental(f"lease-{desk.ledger.home_id[:6]}-0000000000", "", "", RentalState.ABSENT, 0.0)
    return [*book.rentals(desk.ledger), own]


def _ask(desk: Desk, name: str, accounts: bool) -> Told:
    try:
        market = desk.open(name)
        held = patiently(desk, market.holdings)
        return Told(held, patiently(desk, market.account) if accounts else None)
    except LandlordError as error:
        return Told(error=why(error))
    except LeaseholdError as error:
        return Told(error=error.message)


def _carry(desk: Desk, market: str, told: Told) -> None:
    """Adopt boxes that this home asked for and holds no lease of, and record the state of those that it holds."""
    boxes = {one.label: one for one in told.held if one.kind is Kind.BOX and one.state is not State.GONE}
    for rental in book.rentals(desk.ledger, RentalState.INTENDED, RentalState.ABSENT):
        if rental.market == market and rental.label in boxes:
            adopt(desk, rental, boxes[rental.label], "found by its label")
    by_id = {one.id: one for one in told.held}
    for rental in book.rentals(desk.ledger, RentalState.HELD):
        if rental.market != market:
            continue
        if rental.holding in by_id:  # one that is missing may only be late in the list
            note_holding(desk, rental, by_id[rental.holding])
        if told.account is not None and (text := balance_text(told.account)):
            note_balance(desk, rental, text)


def prove_missing(desk: Desk, look: Look) -> None:
    """Ask by id for each box of ours that a list does not show: only that proves it gone."""
    shown = {(one.market, one.holding.id) for one in look.found}
    silent = {name for name, _ in look.unknown}
    for rental in book.rentals(desk.ledger, RentalState.HELD):
        if rental.market in silent or (rental.market, rental.holding) in shown:
            continue
        lease = books.find_lease(desk.ledger, rental.lease)
        if not lease.open:
            book.ended(desk.ledger, rental, "its lease is closed and the landlord does not list it")
            continue
        try:
            note_holding(desk, rental, desk.open(rental.market).holding(rental.holding))
        except LandlordError:
            continue  # it stays as it was: it counts as billing


def say_look(look: Look, now_unix: float) -> list[str]:
    """Format what bills without a lease of this home, dearest first, and what is unknown."""
    orphans = [one for one in look.found if one.whose is Whose.ORPHAN]
    said = [say_orphan(one, now_unix) for one in sorted(orphans, key=lambda one: -_amount(one.holding.rate))]
    return said + [f"what {name} bills is unknown: {error}" for name, error in look.unknown]


def say_orphan(found: Found, now_unix: float) -> str:
    """Format one box or storage that bills without a lease."""
    one = found.holding
    rate = f"{one.rate.amount.normalize():f} {one.rate.currency}/h" if one.rate is not None else "an unknown amount"
    since = f" since {ago(now_unix - one.made_unix)}" if one.made_unix is not None else ""
    what = f"{one.kind.value} {one.id}" + (f" ({one_line(one.label)})" if one.label else "")
    do = "adopt" if one.kind is Kind.BOX else "delete"
    bills = f"{found.market} bills {rate} for {what}, which no lease of yours holds{since}"
    return f"{bills}. Next: lease landlord {do} {found.market} {one.id}"


def _amount(rate: HourlyPrice | None) -> float:
    return float(rate.amount) if rate is not None else float("inf")
