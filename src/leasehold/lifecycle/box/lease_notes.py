"""Notes on a lease: it answers again, the size of its disks, the balance of its account."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from leasehold.errors import UserError
from leasehold.ledger import books, box_book
from leasehold.lifecycle.machine.box import unknown_box
from leasehold.lifecycle.records.orders import BoxWord
from leasehold.model.values.money import HourlyPrice, Money
from leasehold.model.values.units import parse_size

if TYPE_CHECKING:
    from leasehold.ledger.store import Ledger
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.lease import Lease
    from leasehold.model.platform.profile import Profile

_GIB = Decimal(1 << 30)  # the unit in which disks are sold, whatever the price list calls it


def note_reached(ledger: Ledger, lease: Lease) -> None:
    """Record that a parked box, or one whose stop was never confirmed, answers: it is on, and its compute bills."""
    if lease.parked or lease.off_unknown:
        ledger.append("lease_resumed", lease=lease.id, seen="it answered")


def say_meter(profile: Profile, lease: Lease) -> str:
    """Report how holding this box is billed; nothing where no fact says that it is."""
    if profile.landlord == "simulated":
        return ""
    billing = profile.billing or "by the platform"
    return lease.price or (f"{billing} ({profile.title}; no price was given)" if profile.bills else "")


def note_disks(ledger: Ledger, lease: Lease, profile: Profile, disks: Iterable[dict[str, Any]]) -> None:
    """Record the sizes of billed tiers that are mounts of their own; a shared file system's total is not yours."""
    totals = {disk["path"]: disk["total_bytes"] for disk in disks if disk.get("is_mount")}
    billed = [tier for tier in profile.tiers if tier.rates and tier.own_mount and not tier.shared]
    sizes = {tier.name: round(totals[tier.path] / _GIB, 2) for tier in billed if tier.path in totals}
    _note_sizes(ledger, lease, sizes, "audit")


def note_told(home: Home, lease: Lease, balance: str = "", spot: bool = False) -> None:
    """Record a command's facts on the lease's account and capacity; a new lease inherits those of its box."""
    if balance:
        tell(home, BoxWord(lease.box, balance), time.time())
    if spot and not lease.spot:
        note_spot(home.ledger, lease, spot)
    _note_balance(home, books.find_lease(home.ledger, lease.id))


def note_spot(ledger: Ledger, lease: Lease, spot: bool) -> None:
    """Record whether the lease's capacity can be reclaimed."""
    ledger.append("lease_spot", lease=lease.id, spot=spot)


def _note_balance(home: Home, lease: Lease) -> None:
    entry = box_book.find(home.ledger, lease.box)
    known = lease.balance
    if entry and entry.balance and (known is None or entry.balance_unix > known.told_unix):
        _append_balance(home.ledger, lease, entry.balance, entry.balance_unix)


def tell(home: Home, word: BoxWord, now_unix: float) -> list[Lease]:
    """Record a person's statement on a box's account, price or disks; return the open leases that it applies to."""
    entry = box_book.find(home.ledger, word.box)
    held = [lease for lease in books.leases(home.ledger, only_open=True) if word.box in (lease.box, lease.id)]
    if entry is None and not held:
        raise unknown_box(home, word.box)
    price = str(HourlyPrice.parse(word.price)) if word.price else ""
    sizes = _sizes(home, word, held)
    balance = checked_amount(word.balance)
    if entry is not None and (price or balance):
        told = replace(entry, balance=balance, balance_unix=now_unix) if balance else entry
        box_book.record(home.ledger, replace(told, price=price or told.price), replace=True)
    for lease in held:
        if price and price != lease.price:
            home.ledger.append("lease_priced", lease=lease.id, price=price)
        if balance:
            _append_balance(home.ledger, lease, balance, now_unix)
        _note_sizes(home.ledger, lease, sizes, "told")
    return [books.find_lease(home.ledger, lease.id) for lease in held]


def _append_balance(ledger: Ledger, lease: Lease, amount: str, told_unix: float) -> None:
    ledger.append("lease_balance", lease=lease.id, amount=amount, told_unix=told_unix)


def checked_amount(text: str) -> str:
    """Parse an amount as a person writes it; name the format when it is invalid."""
    if not text:
        return ""
    try:
        (currency, amount), *_ = Money.parse(text).amounts
    except ValueError as error:
        raise UserError("box.bad_balance", str(error)) from None
    return f"{amount:f}{currency}"


def _sizes(home: Home, word: BoxWord, held: list[Lease]) -> dict[str, Decimal]:
    """Parse `TIER=100GB` words; the tier must be one of the platform's."""
    sizes: dict[str, Decimal] = {}
    for text in word.disks:
        tier, _, size = text.rpartition("=")
        if not held:
            raise UserError("box.not_leased", f"{word.box} has no open lease to record a disk size for")
        known = [item.name for item in home.shelf().load(held[0].platform).tiers]
        if tier not in known:
            raise UserError("box.bad_disk", f"{text!r}: no tier {tier!r}", hint=f"its tiers: {', '.join(known)}")
        try:
            sizes[tier] = round(parse_size(size) / (Decimal(10**9) if "i" not in size.lower() else _GIB), 2)
        except ValueError as error:
            raise UserError("box.bad_disk", f"{text!r}: {error}") from None
    return sizes


def _note_sizes(ledger: Ledger, lease: Lease, sizes: dict[str, Decimal], by: str) -> None:
    merged = {**lease.disk_gb, **sizes}
    if sizes and merged != lease.disk_gb:
        ledger.append("lease_disk", lease=lease.id, gb={tier: str(size) for tier, size in merged.items()}, by=by)
