"""What the book knows of a box: its entry and its open leases."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from leasehold.ledger import books, box_book
from leasehold.lifecycle.machine.box import unknown_box
from leasehold.model.values.wording import ago

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.box import BoxEntry
    from leasehold.model.lease.lease import Lease


def find(home: Home, name: str) -> BoxEntry:
    """Return the box of this name."""
    entry = box_book.find(home.ledger, name)
    if entry is None:
        raise unknown_box(home, name)
    return entry


def leases_on(home: Home, name: str) -> list[str]:
    """List each open lease of a box: duration, cost, runs."""
    return [lease_line(home, lease) for lease in open_leases_on(home, name)]


def open_leases_on(home: Home, name: str) -> list[Lease]:
    """List the open leases on a box."""
    return [lease for lease in books.leases(home.ledger, only_open=True) if lease.box == name]


def lease_line(home: Home, lease: Lease) -> str:
    """Describe an open lease: duration, cost, runs."""
    from leasehold.lifecycle.money.metering import cost_text  # most boxes of a book are not leased

    now = time.time()
    cost = f"{cost_text(home, lease, now)} so far at {lease.price}" if lease.price else "no price known"
    runs = ", ".join(f"{run.run} ({run.state})" for run in books.runs(home.ledger, lease=lease.id)) or "no runs"
    parked = f", parked for {ago(now - lease.since_unix)}" if lease.parked else ""
    if lease.off_unknown:
        parked = f", asked to stop {ago(now - lease.since_unix)} ago and not confirmed"
    return f"{lease.id}: open for {ago(now - lease.opened_unix)}{parked}, {cost}; {runs}"
