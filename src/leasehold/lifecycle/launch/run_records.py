"""Runs in this home's ledger: which one a command means, where it was begun; a refused launch leaves none."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import BoxError, LeaseholdError, LinkError, Refusal
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.machine.heard_again import hush_closed, note_heard
from leasehold.lifecycle.machine.heard_by_name import reopen_by_machine
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.project.code_tree import CodeTree
from leasehold.lifecycle.project.resolve import run_id
from leasehold.lifecycle.results.git_origin import git_facts
from leasehold.model.job.job import Job
from leasehold.model.lease.lease import Lease, RunLine, RunRecord
from leasehold.model.platform.placing import DEFAULT_ROOT
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import Plan, plan_from_dict
from leasehold.model.values.wording import ago

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine


_LIVE = ("opened", "running", "stopping")


def generation(home: Home, job: Job, tree: CodeTree, *, again: bool) -> int:
    """Count earlier runs of this very job and code; `again` asks for one more."""
    found = _generations(home, job, tree)
    newest = max(found, default=0)
    return newest + 1 if again and found else newest


def generation_on(home: Home, job: Job, tree: CodeTree, box: Box, report: Report, *, again: bool) -> int:
    """Count earlier runs as seen from one box: one that finished elsewhere does not block another run here."""
    found = _generations(home, job, tree)
    newest = max(found, default=0)
    if again or not found or newest not in found:
        return newest + 1 if again and found else newest
    last = found[newest]
    if last.state != "finished" or _is_here(home, last.lease, box) or not _lease(home, last.lease).open:
        return newest
    here = [number for number, line in found.items() if _is_here(home, line.lease, box)]
    if here:
        return max(here)
    text = f"{last.run} finished {_place(_lease(home, last.lease), box)}; the same job trains anew here"
    report(Note("next", text, {"run": last.run}))
    return newest + 1


def still_promised(home: Home, plan: Plan) -> Plan:
    """Keep promising cells that left the job file: the box may have run them; `lease waive` gives a cell up."""
    known = books.run_called(home.ledger, plan.run) if plan.job.cells else None
    before = plan_from_dict(json.loads(known.plan_json)) if known else plan
    named = {cell.name for cell in plan.job.cells}
    left = [cell for cell in before.job.cells if cell.name not in named and cell.name in before.cells]
    if not left:
        return plan
    job = replace(plan.job, cells=(*plan.job.cells, *left))
    return replace(plan, job=job, cells=(*plan.cells, *(cell.name for cell in left)))


def open_lease_on(home: Home, box: Box, price: str, engine: Engine) -> Lease:
    """Return the open lease of a box that has answered; one wrongly recorded as stopped is open again."""
    held = books.lease_held(home.ledger, box.name, box.root)
    if held is None:
        closed = [one for one in books.leases(home.ledger) if (one.box, one.root) == (box.name, box.root)]
        runs = engine.observe.runs() if closed else []
        mine = {record.run for lease in closed[:1] for record in books.runs(home.ledger, lease=lease.id)}
        if any(run["run"] in mine and run["state"] in _LIVE for run in runs):
            note_heard(home, closed[0], runs)
        for lease in closed:
            hush_closed(home, lease, engine)
        reopen_by_machine(home, box, engine)
    return books.open_lease(home.ledger, box.name, box.platform, box.root, price)


def refuse_elsewhere(home: Home, plan: Plan, box: Box, absent_on: str) -> None:
    """Refuse a run that lives in another place, and name that place: a run lives in one place only."""
    known = books.run_called(home.ledger, plan.run)
    if known is None or known.lease == absent_on or _is_here(home, known.lease, box):
        return
    other = _lease(home, known.lease)
    if not other.open or _never_begun(known) and _is_absent(home, other, known.run):
        return
    root = f" --root {other.root}" if other.box == box.name and other.root else ""
    on = f"lease run --on {other.box}{root}"
    raise Refusal(
        "run.elsewhere",
        f"{known.run} {_standing(known)} {_place(other, box)}",
        seen=f"last seen {ago(time.time() - known.seen_unix)} ago" if known.seen_unix else "never seen there",
        hint=f"{on} {'resumes' if known.state in ('failed', 'stopped') else 'goes on with'} it; "
        f"lease move {known.run} --to {box.name} takes its work here; lease run --again starts another here",
    )


@contextmanager
def written_down(home: Home, plan: Plan, lease: Lease, tree: CodeTree, places: tuple[Path, str]) -> Iterator[int]:
    """Record the plan while its box is asked to start; a refusal removes it, for then nothing runs.

    Yield how far this home knew the run before. A broken link keeps the record: whether the run started is unknown.
    """
    known = books.run_called(home.ledger, plan.run)
    if known and known.lease == lease.id and known.plan_json == _spelled(plan):
        yield known.seq
        return
    results, job_file = places
    facts: dict[str, Any] = {"job_file": job_file, **({} if known else {"git": git_facts(tree.project)})}
    _write(home, plan.run, lease, plan.as_dict(), project=str(tree.project), results=str(results), **facts)
    try:
        yield known.seq if known and known.lease == lease.id else 0  # another box has another journal
    except (BoxError, LinkError):
        raise
    except LeaseholdError:
        _take_back(home, plan.run, lease, known)
        raise


def _take_back(home: Home, run: str, lease: Lease, known: RunRecord | None) -> None:
    if known is None:
        home.ledger.append("run_withdrawn", lease=lease.id, run=run)
        return
    before = books.find_lease(home.ledger, known.lease)
    _write(home, run, before, json.loads(known.plan_json), project=known.project, results=known.results)


def _write(home: Home, run: str, lease: Lease, plan: dict[str, Any], **places: Any) -> None:
    name = str(plan["job"]["name"])
    home.ledger.append("run_planned", lease=lease.id, run=run, plan=plan, name=name, box=lease.box, **places)


def _generations(home: Home, job: Job, tree: CodeTree) -> dict[int, RunLine]:
    """List the runs of this very job and code; a sweep over several boxes has a part on each."""
    shape = re.compile(re.escape(run_id(job, tree.identity)) + r"(?:-(\d+))?(?:-b[0-9a-f]{6})?\Z")
    found: dict[int, RunLine] = {}
    for line in books.run_lines(home.ledger):
        if match := shape.match(line.run):
            found.setdefault(int(match[1] or 0), line)
    return found


def _is_absent(home: Home, lease: Lease, run: str) -> bool:
    """Return whether the box that was to have the run answers that it does not know it."""
    try:
        with box_of(home, lease).connect() as engine:
            return bool(engine.observe.look(run)["state"] == "absent")
    except LeaseholdError:
        return False


def _is_here(home: Home, lease: str, box: Box) -> bool:
    held = _lease(home, lease)
    return (held.box, held.root) == (box.name, box.root)


def _lease(home: Home, lease: str) -> Lease:
    return books.find_lease(home.ledger, lease)


def _never_begun(record: RunRecord) -> bool:
    return record.state == "planned" and not record.seq


def _standing(record: RunRecord) -> str:
    if _never_begun(record):
        return "was planned, and whether it started is unknown,"
    return "stands as unknown" if record.state == "unknown" else f"is {record.state}"


def _place(lease: Lease, box: Box) -> str:
    """Name the other place; on one box only the folder tells two places apart."""
    return f"in {lease.root or DEFAULT_ROOT} on {lease.box}" if lease.box == box.name else f"on {lease.box}"


def _spelled(plan: Plan) -> str:
    return json.dumps(plan.as_dict(), sort_keys=True, ensure_ascii=False)
