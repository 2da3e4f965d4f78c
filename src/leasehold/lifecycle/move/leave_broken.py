"""A box that broke is left without asking, where the job names another candidate that is held already."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from leasehold.errors import LeaseholdError, RunFailed
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.money.budget import spending
from leasehold.lifecycle.records.orders import MoveOrder, RunOrder, RunOutcome
from leasehold.lifecycle.run.candidates import candidate_boxes
from leasehold.lifecycle.run.run_job import run_through
from leasehold.model.run.note import Note
from leasehold.model.run.plan import plan_from_dict

from .move_run import move_run

if TYPE_CHECKING:
    from leasehold.lifecycle.approval.phrase import Ask
    from leasehold.model.lease.lease import RunRecord
    from leasehold.model.run.note import Report

_MOST = 10


def run_and_leave(home: Home, order: RunOrder, box: Box | None, ask: Ask, report: Report) -> RunOutcome:
    """Run a job; when its box breaks, move it to the next candidate. Nothing is rented for that."""
    broke: set[tuple[str, str]] = set()
    try:
        return run_through(home, order, box, report)
    except RunFailed as error:
        failure = error
    for _ in range(_MOST):
        if not failure.leaves or order.detach:
            raise failure
        record = books.find_run(home.ledger, failure.leaves)
        lease = books.find_lease(home.ledger, record.lease)
        broke.add((lease.box, lease.root))
        target = next(_others(home, record, broke), None)
        if target is None or _is_spent(home, record):
            raise failure
        report(Note("leaving", f"{lease.box} broke; {target.name} is a candidate too, so {record.run} moves there"))
        moving = MoveOrder(record.run, target.name, target.root, skip_gates=order.skip_gates, because=order.because)
        try:
            return move_run(home, moving, target, ask, report)
        except RunFailed as error:
            failure = error
    raise failure


def _others(home: Home, record: RunRecord, broke: set[tuple[str, str]]) -> Iterator[Box]:
    """Yield the job's other candidates that answer."""
    job = plan_from_dict(json.loads(record.plan_json)).job
    for _, box in candidate_boxes(home, job.candidates, ""):
        if isinstance(box, Box) and (box.name, box.root) not in broke:
            try:
                box.connect().close()
            except LeaseholdError:
                continue
            yield box


def _is_spent(home: Home, record: RunRecord) -> bool:
    """Return whether the run's budget is used up."""
    spent = spending(home, record, time.time())
    return spent is not None and spent.passed >= 100
