"""`lease resume`: continue a run with its original plan and code, whatever the folder contains now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.errors import BoxError, Refusal, UserError
from leasehold.ledger import books
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.records.orders import RunOrder, RunOutcome
from leasehold.lifecycle.results import kept_code
from leasehold.model.run.plan import plan_from_dict

from .run_job import run_through

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.lease import RunRecord
    from leasehold.model.run.note import Report
    from leasehold.platforms.contract import Engine


def resume(home: Home, word: str, report: Report, *, detach: bool = False) -> RunOutcome:
    """Restart an ended run's unfinished cells where it is; attach to one that is alive."""
    record = books.find_run(home.ledger, word)
    lease = books.find_lease(home.ledger, record.lease)
    if not lease.open:
        raise Refusal(
            "run.box_gone",
            f"{record.run} cannot go on: its lease {lease.id} is closed, and its state was on that box",
            hint="lease run --again starts the job anew; what came home: lease show " + record.run,
        )
    plan = plan_from_dict(json.loads(record.plan_json))
    box = box_of(home, lease)
    _refuse_ended(box.look_in(), record)
    with kept_code.unpacked(home.ledger, plan.tree, Path(record.project)) as tree:
        order = RunOrder(
            Path(record.project) / job_file_of(home, record),
            on=lease.box,
            results=Path(record.results),
            detach=detach,
            prepared=(plan.job, tree),
            stored=plan,
        )
        return run_through(home, order, box, report)


def _refuse_ended(engine: Engine, record: RunRecord) -> None:
    with engine:
        state = str(engine.observe.look(record.run)["state"])
    if state == "absent":
        raise BoxError(
            "run.absent",
            f"{record.box} knows no run {record.run}",
            hint="the identical lease run starts it there; lease status --refresh asks again",
        )
    if state == "finished":
        hint = f"lease pull {record.run} brings its results home; lease run --again trains once more"
        raise UserError("run.finished", f"{record.run} has finished: there is nothing to resume", hint=hint)


def job_file_of(home: Home, record: RunRecord) -> str:
    """Name the job file from which the run was planned, if this home recorded it."""
    planned = [event.data for event in home.ledger.events(run=record.run, kind="run_planned")]
    return str(next((data["job_file"] for data in reversed(planned) if data.get("job_file")), "lease.yaml"))
