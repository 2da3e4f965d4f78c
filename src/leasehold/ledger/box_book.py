"""The box book in the ledger: names of machines, as events and as a table."""

from __future__ import annotations

from leasehold.errors import Refusal, UserError
from leasehold.model.lease.box import BoxEntry, box_from_dict
from leasehold.model.lease.lease import Lease

from .projection import box_from_row
from .store import Ledger


def entries(ledger: Ledger) -> list[BoxEntry]:
    """List the boxes in the order they were added."""
    return [box_from_row(row) for row in ledger.query("SELECT * FROM boxes ORDER BY added, name")]


def find(ledger: Ledger, name: str) -> BoxEntry | None:
    """Return the box of this name, if the book has one."""
    rows = ledger.query("SELECT * FROM boxes WHERE name = ?", name)
    return box_from_row(rows[0]) if rows else None


def find_at(ledger: Ledger, name: str, unix: float) -> BoxEntry | None:
    """Return the entry that this name had at a time, even if it was removed since."""
    events = [event for kind in ("box_added", "box_changed") for event in ledger.events(kind=kind)]
    known = [event for event in events if event.data.get("name") == name and event.t <= unix]
    return box_from_dict(max(known, key=lambda event: event.seq).data) if known else None


def refuse_duplicate(ledger: Ledger, entry: BoxEntry, *, replace: bool) -> None:
    """Raise if the name is taken, or the machine is listed under another name; a meter must not count twice."""
    known = find(ledger, entry.name)
    if known and not replace:
        raise UserError(
            "box.exists",
            f"the book already has a box {entry.name!r}",
            seen=f"{known.name} is {known.address}, {known.platform}",
            hint=f"lease box add {entry.name} … --replace changes it; lease box show {entry.name}",
        )
    for other in entries(ledger):
        if other.address == entry.address != "local" and other.name != entry.name:
            raise UserError(
                "box.known_address",
                f"{entry.address} is already in the book, as {other.name!r}",
                hint=f"use --on {other.name}, or lease box remove {other.name} first",
            )


def record(ledger: Ledger, entry: BoxEntry, *, replace: bool = False) -> None:
    """Add a box; a duplicate raises. The same entry once more changes nothing."""
    with ledger.transaction() as append:
        refuse_duplicate(ledger, entry, replace=replace)
        old = find(ledger, entry.name)
        if old != entry:
            append("box_changed" if old else "box_added", "", "", entry.as_dict())


def choose_platform(ledger: Ledger, address: str, platform: str, against: list[str]) -> None:
    """Record which platform a person named for an ssh: address, and which ones its signs point to instead."""
    ledger.append("platform_chosen", lease=address, box=address, platform=platform, against=against)


def chosen_platform(ledger: Ledger, address: str) -> str:
    """Return the platform that a person named last for an ssh: address; empty if nobody did."""
    events = list(ledger.events(lease=address, kind="platform_chosen"))
    return str(events[-1].data["platform"]) if events else ""


def introduce(ledger: Ledger, address: str, platform: str) -> None:
    """Record that a person was informed what a platform does to money and data, at an ssh: address."""
    ledger.append("platform_told", lease=address, box=address, platform=platform)


def introduced(ledger: Ledger, address: str, platform: str) -> bool:
    """Return whether that was recorded before."""
    told = ledger.events(lease=address, kind="platform_told")
    return any(event.data["platform"] == platform for event in told)


def rebook(ledger: Ledger, lease: Lease, platform: str, root: str) -> bool:
    """Move an open lease to another platform and folder, unless its runs may be on the box; return whether it did."""
    if (lease.platform, lease.root) == (platform, root):
        return True
    begun = ledger.query("SELECT 1 FROM runs WHERE lease = ? AND (seen > 0 OR state <> 'planned') LIMIT 1", lease.id)
    if not begun:
        ledger.append("lease_rebooked", lease=lease.id, platform=platform, root=root, was=[lease.platform, lease.root])
    return not begun


def move_platform(ledger: Ledger, lease: Lease, platform: str) -> None:
    """Correct the platform of an open lease that was recorded wrongly; its folder stays where its runs are."""
    was = [lease.platform, lease.root]
    ledger.append("lease_rebooked", lease=lease.id, platform=platform, root=lease.root, was=was)


def remove(ledger: Ledger, name: str) -> None:
    """Remove a box, unless a lease on it is open."""
    with ledger.transaction() as append:
        held = ledger.query("SELECT id FROM leases WHERE box = ? AND closed = 0", name)
        if held:
            raise Refusal("box.leased", f"{name} has an open lease, {held[0][0]}; it stays in the book")
        append("box_removed", "", "", {"name": name})
