"""Stop a run and see it end. If its caretaker gives no sign of life, the box ends the trainers without it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leasehold.errors import BoxError
from leasehold.kit.events.run_events import woken
from leasehold.ledger import books
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.watch.watch import NotOver, Watch
from leasehold.model.run.note import Note, Report

if TYPE_CHECKING:
    from leasehold.kit.run.run_state import RunState
    from leasehold.kit.wire.messages import RunSeen
    from leasehold.lifecycle.home.home import Home
    from leasehold.lifecycle.machine.box import Box
    from leasehold.model.lease.lease import Lease, RunRecord

_AFTER_GRACE_S = 10.0  # the caretaker kills when the grace period is over, and records that
_UNREACHED_S = 120.0
_STATES = {"D": "hangs in the kernel", "T": "is suspended", "t": "is held by a debugger"}


def stop_run(
    home: Home, record: RunRecord, grace_s: float, report: Report, lease: Lease | None = None
) -> Mapping[str, Any]:
    """End exactly this run's processes and wait until they are gone; the wait is bounded, and failures are reported.

    lease: of a box that the run has left, if it still works there.
    """
    lease = lease or books.find_lease(home.ledger, record.lease)
    box = box_of(home, lease)
    with box.connect() as engine:
        me = home.ledger.home_id
        seen = engine.work.stop(record.run, {"id": os.urandom(6).hex(), "by": me, "home": me, "grace_s": grace_s})
    if seen["did"] == "nothing":
        report(Note("nothing", f"{record.run} had already {seen['state']}"))
        _record(home, lease, record, seen)
        return seen
    for one in seen.get("woken") or ():
        report(Note("warning", woken(one["what"], one["pid"])))
    watch = Watch(record.run, lease.id, box, quiet_to_seq=seen["seq"], tail_bytes=0)
    watch.patience_s = grace_s + min(_UNREACHED_S, box.limits.answer_s)
    watch.deadline_s = time.monotonic() + grace_s + _AFTER_GRACE_S
    try:
        state = watch.until_end(home.ledger, None, report)
    except NotOver as slow:
        _end_without_caretaker(home, box, record, grace_s, slow, report)
        watch.deadline_s = time.monotonic() + _AFTER_GRACE_S
        state = _await_record(home, watch, record, report)
    return {"run": record.run, "state": state.state, "did": "stopped"}


def _await_record(home: Home, watch: Watch, record: RunRecord, report: Report) -> RunState:
    """Wait for the end in the journal; otherwise the trainers are gone, and the run's state is unknown."""
    try:
        return watch.until_end(home.ledger, None, report)
    except NotOver as slow:
        raise BoxError(
            "stop.not_recorded",
            f"the processes of {record.run} are gone, but its caretaker has not recorded that",
            seen=slow.why,
            hint="let the caretaker go on or end it by its pid; the identical lease stop then records the end",
        ) from None


def _end_without_caretaker(
    home: Home, box: Box, record: RunRecord, grace_s: float, slow: NotOver, report: Report
) -> None:
    report(Note("warning", f"{slow.why}; ending the processes of {record.run} without it"))
    with box.connect() as engine:
        done = engine.work.end_by_force(record.run, home.ledger.home_id, grace_s)
    for guard in done["guards"]:
        how = _STATES.get(str(guard["state"]), f"is in state {guard['state']}")
        report(Note("warning", f"its {guard['what']} (pid {guard['pid']}) {how}"))
    if done["ended"]:
        report(Note("stopped", f"ended: pid {', '.join(map(str, done['ended']))}"))
    if done["left"]:
        named = ", ".join(f"pid {one['pid']} (state {one['state']})" for one in done["left"])
        raise BoxError(
            "stop.not_ended",
            f"not all processes of {record.run} could be ended: {named} outlived SIGKILL",
            seen=slow.why,
            hint="a process in state D waits for a disk or a driver; it ends when that answers, or with the box",
        )


def _record(home: Home, lease: Lease, record: RunRecord, seen: RunSeen) -> None:
    facts = {key: seen[key] for key in ("state", "seq", "reason")}
    home.ledger.append("run_seen", lease=lease.id, run=record.run, **facts)
