"""A box of a lease reported as stopped that answers under another name or from another folder.

The name proves nothing. The same running system with that lease's run at work does: the lease was closed by
mistake, is open again, and counts from its beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.ledger import books
from leasehold.model.lease.machine import Same, compare, machine_read

from .heard_again import doubtful, note_heard
from .other_roots import known_roots
from .shared_meters import met_before
from .two_places import host_key

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.platforms.contract import Engine

    from .box import Box


_LIVE = ("opened", "running", "stopping")


def reopen_by_machine(home: Home, box: Box, engine: Engine) -> None:
    """Reopen the doubtful leases whose runs are at work on this very machine; it is asked only where there are any."""
    closed = [(lease, met_before(home, lease)) for lease in books.leases(home.ledger) if doubtful(home, lease)]
    known = [(lease, met) for lease, met in closed if met is not None]
    if not known:
        return
    said, roots = engine.box.machine(known_roots(home))
    here = machine_read(said, host_key(box))
    runs: list[Any] = [*engine.observe.runs(), *(run for root in roots for run in root.get("runs") or ())]
    live = {str(run.get("run")) for run in runs if run.get("state") in _LIVE}
    for lease, met in known:
        mine = {record.run for record in books.runs(home.ledger, lease=lease.id)}
        if live & mine and compare(met, here) is Same.YES:
            note_heard(home, lease, [run for run in runs if run.get("run") in mine])
