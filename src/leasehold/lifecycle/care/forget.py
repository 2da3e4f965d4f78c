"""`lease run forget`: remove a run from this home's lists; never while something of it could be lost or could bill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.errors import Refusal
from leasehold.ledger import books
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.model.lease.box import LOCAL

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.lease import Lease, RunRecord

_LIVE = ("running", "stopping", "opened", "unknown")


def forget(home: Home, word: str) -> RunRecord:
    """Remove a run from the lists; its events stay in the ledger, and its results stay where they are."""
    record = books.find_run(home.ledger, word)
    lease = books.find_lease(home.ledger, record.lease)
    if lease.open:
        _refuse_kept(home, record, lease)
    home.ledger.append("run_forgotten", lease=record.lease, run=record.run, state=record.state)
    return record


def _refuse_kept(home: Home, record: RunRecord, lease: Lease) -> None:
    """Refuse a run on a box that is still held, unless it never began, or is settled and here."""
    if record.state in _LIVE:
        hint = f"lease stop {record.run}, or lease watch {record.run}"
        raise Refusal("forget.lives", f"{record.run} is {record.state}, as last known", hint=hint)
    with box_of(home, lease).look_in() as engine:  # an unresponsive box may still hold it
        state = str(engine.observe.look(record.run)["state"])
    if state == "absent":
        return
    if state in _LIVE:
        raise Refusal("forget.lives", f"{record.run} is {state} on {record.box}", hint=f"lease stop {record.run}")
    if owed := record.owed():
        raise Refusal(
            "forget.owed",
            f"{record.run} is not home: {', '.join(owed[:4])}{' …' if len(owed) > 4 else ''}",
            seen=f"{state} on {record.box}, whose lease {lease.id} is open",
            hint=f"lease pull {record.run} brings it home; lease waive {record.run} gives it up",
        )
    if lease.box != LOCAL or lease.platform == "rehearsal":
        raise Refusal(
            "forget.billed",
            f"{record.run} lies on {record.box}, whose lease {lease.id} is open and may bill",
            hint=f"lease down {lease.id} first: what is on that box is judged by its runs",
        )
