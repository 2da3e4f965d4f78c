"""Find the cells of a run that went to other boxes of its sweep, according to this home's ledger."""

from __future__ import annotations

import json

from leasehold.gates.end.teardown import Moved
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.records.sweep_parts import sweep_of
from leasehold.model.lease.lease import RunRecord


def moved_from(home: Home, record: RunRecord) -> tuple[Moved, ...]:
    """List the cells that a run once promised and no longer does, each with the box that has it now."""
    sweep = sweep_of(record.run)
    if sweep == record.run:  # one box has them all
        return ()
    has: dict[str, RunRecord] = {}
    for other in books.runs(home.ledger):
        if other.run != record.run and sweep_of(other.run) == sweep:
            has.update(dict.fromkeys(_cells(other.plan_json), other))
    plans = home.ledger.events(run=record.run, kind="run_planned")
    ever = dict.fromkeys(str(cell) for event in plans for cell in event.data["plan"]["cells"])
    gone = [cell for cell in ever if cell not in set(_cells(record.plan_json))]
    settled = {other.run: set(other.settled()) for other in has.values()}
    return tuple(
        Moved(cell, has[cell].box, cell in settled[has[cell].run]) if cell in has else Moved(cell) for cell in gone
    )


def _cells(plan_json: str) -> list[str]:
    return [str(cell) for cell in json.loads(plan_json)["cells"]]
