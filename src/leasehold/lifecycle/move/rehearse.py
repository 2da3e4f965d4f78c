"""`lease move --rehearse`: what a move would resume from and lose; it reads that state whole and changes nothing."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.preflight.plan_inputs import judge_on_box, profile_on
from leasehold.lifecycle.records.orders import Arrival, MoveOrder, Where
from leasehold.model.lease.lease import Lease, RunRecord
from leasehold.model.platform.plan_sheet import Wishes
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import plan_from_dict

from . import leave_old
from .find_states import in_places
from .lay import say_state
from .leave_old import Old
from .lost_work import lost_work
from .move_run import placed, refuse_settled
from .moving import Moving
from .places import Kept


def rehearse(home: Home, order: MoveOrder, box: Box, moving: Moving, report: Report) -> dict[str, Any]:
    """Walk through a move without stopping, claiming or writing anything; return what it would do."""
    record = books.find_run(home.ledger, order.word)
    refuse_settled(record, box)
    lease = books.find_lease(home.ledger, record.lease)
    project, begun = Path(record.project), plan_from_dict(json.loads(record.plan_json))
    profile = profile_on(home, box, project)
    plan = placed(begun, profile)
    judged = judge_on_box(home, box, plan.job, Wishes(order.price), time.time(), project).verdict
    for finding in judged.against():
        report(Note("warning", f"plan gate on {box.name}: {finding.what}; {finding.hint}"))
    old = leave_old.visit(home, lease, record.run, report)
    try:
        with box.connect() as engine:
            where = Where(box.name, box.root)
            arrival = Arrival(where, engine, lease, profile, plan, plan.cells, Path(record.results))
            found = in_places(home, record.run, plan.cells, moving.places(home, arrival, old), report)
            cells = {cell: _first_whole(cell, kept, report) for cell, kept in found.items()}
            return _described(record, (lease, old), box, cells, report)
    finally:
        old.close()


def _first_whole(cell: str, found: list[Kept], report: Report) -> Kept | None:
    for kept in found:
        wrong = kept.place.prove(kept)
        if not wrong:
            text = f"cell {cell}: {say_state(kept)} in {kept.place.where} is whole: every byte was read now"
            report(Note("proved", text, {"cell": cell, "state": kept.id}))
            return kept
        report(Note("torn", f"cell {cell}: state {kept.id} in {kept.place.where} is damaged: {wrong[0]}"))
    report(Note("warning", f"cell {cell}: no whole state has left its box"))
    return None


def _described(
    record: RunRecord, left: tuple[Lease, Old], box: Box, cells: dict[str, Kept | None], report: Report
) -> dict[str, Any]:
    lease, old = left
    state = str(old.seen["state"]) if old.seen else "unknown"
    if old.seen is not None and state not in ("absent", "finished"):
        text = f"{old.box} answers and the run is {state} there: a move stops it with a last save and takes that"
    else:
        text = f"{old.box}: {old.why or state}; only what has left it can go on"
    report(Note("from", text, {"box": old.box, "state": state}))
    lost = lost_work(record, lease, old, next((kept for kept in cells.values() if kept), None))
    report(Note("lost", f"if {old.box} were gone now, lost: {lost.words}", lost.as_dict()))
    return {
        "run": record.run,
        "from": old.box,
        "from_state": state,
        "to": box.name,
        "cells": {
            cell: {"state": kept.id, "step": kept.state.step, "place": kept.place.where} if kept else None
            for cell, kept in cells.items()
        },
        "lost_without_the_old_box": lost.as_dict(),
    }
