"""Account balances as the landlords' APIs tell them: for the plan gate before a rent, and for the screens after it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from leasehold.errors import LeaseholdError
from leasehold.ledger import books
from leasehold.model.lease.rental import Rental
from leasehold.model.run.note import Note
from leasehold.platforms.landlords.market import Account

from .desk import Desk, patiently


def read_balances(desk: Desk, markets: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the balance of each landlord whose API tells one; a failure is reported and leaves it unknown."""
    found = []
    for name in markets:
        try:
            account = patiently(desk, desk.open(name).account)
        except LeaseholdError as error:
            desk.report(Note("warning", f"the balance at {name} is unknown: {error.message}"))
            continue
        if text := balance_text(account):
            found.append((name, text))
    return tuple(found)


def balance_text(account: Account) -> str:
    """Spell a balance as a person would state it; empty if the API tells none."""
    if account.balance is None or not account.balance.amounts:
        return ""
    currency, amount = account.balance.amounts[0]
    return f"{max(amount, Decimal(0)):.4f}{currency}"


def note_balance(desk: Desk, rental: Rental, balance: str) -> None:
    """Record on a rental's lease what its account holds now; a balance that is below zero counts as empty."""
    lease = books.find_lease(desk.ledger, rental.lease)
    if not lease.open or (lease.balance is not None and lease.balance.told_unix > desk.clock() - 600):
        return
    desk.ledger.append("lease_balance", lease=lease.id, amount=balance, told_unix=desk.clock(), by=rental.market)
