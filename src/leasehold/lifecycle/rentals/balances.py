"""Account balances as the landlords' APIs tell them: for the plan gate before a rent, and for the screens after it."""

from __future__ import annotations

from decimal import Decimal

from leasehold.ledger import books
from leasehold.model.lease.rental import Rental
from leasehold.platforms.landlords.market import Account

from .desk import Desk


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
