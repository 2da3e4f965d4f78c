"""One machine has one meter, whatever its names and roots; a name never proves which machine it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.ledger import books
from leasehold.lifecycle.money.budget import bills
from leasehold.model.lease.machine import Machine, Same, compare, machine_from_dict, machine_read
from leasehold.model.run.note import Note, Report

from .other_roots import known_roots
from .two_places import host_key

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.lease import Lease
    from leasehold.platforms.contract import Engine

    from .box import Box


def read_machine(home: Home, box: Box, engine: Engine) -> Machine:
    """Ask the box for its machine identity."""
    said, _ = engine.box.machine(known_roots(home))
    return machine_read(said, host_key(box))


def met_before(home: Home, lease: Lease) -> Machine | None:
    """Return the machine as last seen on this lease."""
    met = list(home.ledger.events(lease=lease.id, kind="machine_met"))
    return machine_from_dict(met[-1].data) if met else None


def meet(home: Home, lease: Lease, at: tuple[Box, Engine], report: Report) -> None:
    """Record the machine of a lease opened for an existing run; nothing else asks for it then."""
    if met_before(home, lease) is None:
        box, engine = at
        note_machine(home, lease, read_machine(home, box, engine), report)


def note_machine(home: Home, lease: Lease, met: Machine, report: Report) -> None:
    """Record which machine a lease is on; one that another open lease already counts is not counted twice."""
    if met_before(home, lease) != met:
        home.ledger.append("machine_met", lease=lease.id, **met.as_dict())
    if lease.counted_by or not bills(lease):
        return
    for other in reversed(books.leases(home.ledger, only_open=True)):
        known = met_before(home, other) if other.id != lease.id and bills(other) else None
        same = compare(known, met) if known else Same.NO
        if known and same is Same.YES and not _counts_for(home, lease):
            _count_there(home, lease, other, report)
            return
        if known and same is Same.UNKNOWN and met.host_key and met.host_key == known.host_key:
            text = f"{lease.box} may be the machine of {other.id} ({other.box}): both show one host key, and nothing"
            text += " more is proven; both meters count"
            report(Note("warning", text, {"lease": lease.id, "other": other.id}))


def _count_there(home: Home, lease: Lease, other: Lease, report: Report) -> None:
    first = other.counted_by or other.id
    since = max(lease.opened_unix, books.find_lease(home.ledger, first).opened_unix)
    with home.ledger.transaction() as append:
        append("lease_counted_by", lease.id, "", {"by": first, "since_unix": since})
        if lease.price and not books.find_lease(home.ledger, first).price:
            append("lease_priced", first, "", {"price": lease.price})
    text = f"{lease.box} is the machine of {other.box}: {lease.id} is counted by {first}, and not twice"
    report(Note("same_machine", text, {"lease": lease.id, "counted_by": first}))


def _counts_for(home: Home, lease: Lease) -> bool:
    return any(other.counted_by == lease.id for other in books.leases(home.ledger, only_open=True))


def twins_of(home: Home, lease: Lease) -> set[str]:
    """List the other open leases that are on this very machine, as far as that was proven."""
    first = lease.counted_by or lease.id
    held = books.leases(home.ledger, only_open=True)
    return {other.id for other in held if first in (other.id, other.counted_by)} - {lease.id}


def close_twins(home: Home, twins: set[str], said: str, report: Report) -> None:
    """Close every other lease on a machine that is gone."""
    for twin in sorted(twins):
        home.ledger.append("lease_closed", lease=twin, verb=said, said="it was on the same machine")
        report(Note("closed", f"{twin} was on the same machine and is closed too"))
