"""`lease move`: put a run on another box, with the code and job that it began with and its newest whole state."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.errors import Refusal, UserError
from leasehold.ledger import books
from leasehold.lifecycle.approval.phrase import Ask
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.preflight.plan_inputs import profile_on
from leasehold.lifecycle.project.local_data import read_data
from leasehold.lifecycle.project.resolve import environment_of
from leasehold.lifecycle.records.orders import MoveOrder, RunOrder, RunOutcome
from leasehold.lifecycle.records.sweep_parts import sweep_of
from leasehold.lifecycle.results import kept_code
from leasehold.lifecycle.run.resume import job_file_of
from leasehold.lifecycle.run.run_job import run_through
from leasehold.model.lease.lease import RunRecord
from leasehold.model.run.plan import Plan, plan_from_dict

from .moving import Moving

if TYPE_CHECKING:
    from leasehold.model.platform.profile import Profile
    from leasehold.model.run.note import Report


def move_run(home: Home, order: MoveOrder, box: Box, ask: Ask, report: Report) -> RunOutcome:
    """Move a run to this box and follow it; the identical call continues a move that was cut off."""
    record = books.find_run(home.ledger, order.word)
    refuse_settled(record, box)
    begun = plan_from_dict(json.loads(record.plan_json))
    project = Path(record.project)
    plan = placed(begun, profile_on(home, box, project))
    with kept_code.unpacked(home.ledger, plan.tree, project) as tree:
        if plan.job.data and not tree.data:
            tree = replace(tree, data=read_data(plan.job, project, home.tree_memory(project), report)[1])
        run_order = RunOrder(
            project / job_file_of(home, record),
            on=box.name,
            root=box.root,
            price=order.price,
            results=Path(record.results),
            detach=order.detach,
            skip_gates=order.skip_gates,
            because=order.because,
            prepared=(plan.job, tree),
            stored=plan,
            bring=Moving(ask, asked=True, from_start=order.from_start, grace_s=order.grace_s),
        )
        return run_through(home, run_order, box, report)


def placed(plan: Plan, profile: Profile) -> Plan:
    """Return the same plan for another platform: where it runs, not what."""
    return replace(
        plan, platform=profile.id, detach=profile.detach, environment=environment_of(profile), engine=profile.engine
    )


def refuse_settled(record: RunRecord, box: Box) -> None:
    """Refuse a run that has nothing left to move, or that moves in another way."""
    if record.receipt_json and not record.owed():
        raise UserError(
            "run.finished", f"{record.run} has finished and its results are home: there is nothing to move",
            hint="lease run --again --on BOX trains once more",
        )  # fmt: skip
    if sweep_of(record.run) != record.run:
        raise Refusal(
            "move.sweep",
            f"{record.run} is one box's part of a sweep over several boxes; its cells move by themselves",
            hint=f"lease run --on BOX,{box.name} gives its cells to the boxes that answer, with their newest states",
        )
    if plan_from_dict(json.loads(record.plan_json)).adopted:
        raise Refusal("move.adopted", f"{record.run} was adopted: Leasehold never restarts its process", hint="")
