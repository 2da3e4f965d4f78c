"""Verbs of boxes: the book of names, and a person's own command on one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.records.orders import BoxOrder, BoxWord
from leasehold.model.lease.box import BoxEntry
from leasehold.model.run.note import Report

if TYPE_CHECKING:
    from leasehold.lifecycle.money.metering import LeaseMeter
    from leasehold.model.run.entered import Entered
    from leasehold.model.run.verdict import Verdict


def box_add(home: Home, order: BoxOrder, report: Report) -> BoxEntry:
    """Contact a box and record it; refuse a duplicate, a changed key and a relay that only carries a terminal."""
    from leasehold.lifecycle.box import book

    return book.add(home, order, report)


def box_next(home: Home, entry: BoxEntry) -> str:
    """Return what can be done now with a box of the book."""
    from leasehold.lifecycle.machine.box import only_plans

    profile = home.shelf().load(entry.platform)
    if profile.runnable:
        return f"Next: lease box test {entry.name}, or lease run --on {entry.name}"
    return f"This version cannot start work there (no {profile.engine} engine yet): {only_plans(entry.name)}"


def box_list(home: Home) -> list[dict[str, Any]]:
    """List the boxes with their open leases, without connecting to any."""
    from leasehold.ledger import books, box_book

    entries = box_book.entries(home.ledger)
    leased = {lease.box for lease in books.leases(home.ledger, only_open=True)}
    return [
        {**entry.as_dict(), "leases": _leases(home, entry.name) if entry.name in leased else []} for entry in entries
    ]


def _leases(home: Home, name: str) -> list[str]:
    from leasehold.lifecycle.box.book_rows import leases_on

    return leases_on(home, name)


def box_show(home: Home, name: str) -> dict[str, Any]:
    """Return all that the book knows of a box, its open leases, its platform's dangers, and the runs found there."""
    from leasehold.lifecycle.box.book_rows import find, leases_on
    from leasehold.model.platform.placing import DEFAULT_ROOT, placed

    entry = find(home, name)
    from leasehold.lifecycle.box.box_paths import say_places
    from leasehold.lifecycle.box.box_runs import runs_found
    from leasehold.lifecycle.box.dangers import dangers
    from leasehold.lifecycle.box.reboot_consent import allowed, say_since

    profile = placed(home.shelf().load(entry.platform), entry.root or DEFAULT_ROOT, entry.durable)
    said = [*dangers(profile, time.time()), *say_places(entry, profile)]
    given = allowed(home, name)
    reboot = f"{say_since(given)}; lease box reboot {name} lists them" if given else ""
    held = leases_on(home, name)
    return {**entry.as_dict(), "leases": held, "dangers": said, "reboot": reboot, "found": runs_found(home, entry)}


def box_remove(home: Home, name: str, report: Report) -> BoxEntry:
    """Remove a box from the book; refuse while a lease on it is open."""
    from leasehold.lifecycle.box import book

    return book.remove(home, name, report)


def box_tell(home: Home, word: BoxWord) -> list[LeaseMeter]:
    """Record what a person states about an account, a price or disks; return the meters that changed."""
    from leasehold.lifecycle.box.lease_notes import tell
    from leasehold.lifecycle.money.metering import meter_of

    now = time.time()
    return [meter_of(home, lease, now) for lease in tell(home, word, now)]


def box_test(home: Home, name: str, report: Report) -> Verdict:
    """Test on a box everything that a run needs; report `unknown` for what could not be tested."""
    from leasehold.lifecycle.box import book

    return book.test(home, name, report)


def box_prune(home: Home, name: str, *, dry_run: bool = False) -> dict[str, Any]:
    """Remove code and uploaded data on a box that no unfinished run uses; the next run sends what it needs again."""
    from leasehold.lifecycle.machine.leased_box import box_called
    from leasehold.model.values.units import say_bytes

    with box_called(home, name).connect() as engine:
        gone = engine.uploads.prune(dry_run=dry_run)
    return {**gone, "freed": say_bytes(int(gone["bytes"]) + int(gone.get("data_bytes", 0)))}


def box_reboot(home: Home, name: str) -> dict[str, Any]:
    """Return whether runs may continue by themselves after the box restarts, and what is installed there for it."""
    from leasehold.lifecycle.box.reboot_consent import allowed, installed, say_since

    given = allowed(home, name)
    return {"allowed": given, "said": say_since(given) if given else "", "hooks": installed(home, name)}


def box_reboot_allow(home: Home, name: str, report: Report) -> list[dict[str, Any]]:
    """Allow runs to continue after a restart, after a typed yes; return what was installed for live runs at once."""
    from leasehold.lifecycle.approval.phrase import terminal_ask
    from leasehold.lifecycle.box.reboot_consent import allow

    hint = "a person must type it, once for each box"
    return allow(home, name, lambda question: terminal_ask(question, hint), report)


def box_reboot_forbid(home: Home, name: str) -> list[dict[str, Any]]:
    """Withdraw the permission, and remove all of our hooks from the box."""
    from leasehold.lifecycle.box.reboot_consent import forbid

    return forbid(home, name)


def ssh(home: Home, word: str, words: Sequence[str], *, capture: bool = False) -> Entered:
    """Open a shell or run a command on a box, or in the folder of a run on its box."""
    from leasehold.lifecycle.care import enter

    return enter.ssh(home, word, words, capture=capture)


def execute(home: Home, word: str, cell: str, words: Sequence[str], *, capture: bool = False) -> Entered:
    """Run a command in a run's working folder and environment."""
    from leasehold.lifecycle.care import enter

    return enter.enter(home, word, cell, words, capture=capture)
