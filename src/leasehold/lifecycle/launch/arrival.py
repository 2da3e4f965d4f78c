"""Checks before a run is put on a box: is it the run's earlier box, is it a known machine, where do results go?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.errors import Refusal
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.machine.heard_again import is_another
from leasehold.lifecycle.machine.shared_meters import met_before, note_machine, read_machine
from leasehold.lifecycle.machine.two_places import refuse_results_on_box
from leasehold.model.lease.lease import Lease, RunRecord
from leasehold.model.lease.machine import Machine
from leasehold.model.platform.placing import DEFAULT_ROOT
from leasehold.model.run.note import Report
from leasehold.model.values.wording import ago

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine


def arrive(
    home: Home, lease: Lease, at: tuple[Box, Engine], before: RunRecord | None, results: Path, report: Report
) -> None:
    """Judge a box that does not know the run; nothing was started there yet."""
    box, engine = at
    met = read_machine(home, box, engine)
    _refuse_lost(home, lease, before, met)
    refuse_results_on_box(engine, box, results)
    note_machine(home, lease, met, report)


def _refuse_lost(home: Home, lease: Lease, before: RunRecord | None, met: Machine) -> None:
    """Refuse to start a run from zero on a box where this home saw it working, just because its folder is gone now."""
    if before is None or before.state == "planned" or not _was_here(home, lease, before):
        return
    if books.was_removed(home.ledger, before.run) or not (before.owed() or before.receipt_json):
        return
    place = lease.root or DEFAULT_ROOT
    raise Refusal(
        "run.vanished",
        f"{before.run} was at work on {lease.box}{_trained(before)}, and {place} there knows nothing of it now; "
        "nothing was started, it would begin at zero",
        seen=_seen(met_before(home, books.find_lease(home.ledger, before.lease)), met),
        hint="is its disk mounted, is it the same machine? Put that right, then the identical command goes on\n"
        + ("its results are home already: " + before.home_since + "\n" if before.home_since else "")
        + f"if the folder is lost for good: lease run --again begins at zero, and lease waive {before.run} gives up "
        "what never came home",
    )


def _was_here(home: Home, lease: Lease, before: RunRecord) -> bool:
    """Return whether the run worked in this folder of this box, on this lease or one that a person called stopped."""
    if before.lease == lease.id:
        return True
    earlier = books.find_lease(home.ledger, before.lease)
    stopped = not earlier.open and books.closed_by_word(home.ledger, earlier.id)
    here = (earlier.box, earlier.root) == (lease.box, lease.root)
    return stopped and here and bool(before.owed()) and not is_another(home, earlier)


def _trained(record: RunRecord) -> str:
    trained_s = float((json.loads(record.work_json) if record.work_json else {}).get("trained_s") or 0.0)
    return f" ({ago(trained_s)} trained)" if trained_s >= 1 else ""


def _seen(before: Machine | None, now: Machine) -> str:
    """Compare the folder's own name then and now: a fresh folder has another."""
    if before is None or not before.box_id:
        return f"box-id there now {now.box_id or 'absent'}, then not noted"
    if before.box_id == now.box_id:
        return f"the folder is the same one (box-id {now.box_id}), only the run is gone from it"
    what = f"another folder: box-id then {before.box_id}, now {now.box_id or 'absent'}"
    return what + ("" if before.boot == now.boot else "; the machine was rebooted since, or is another")
