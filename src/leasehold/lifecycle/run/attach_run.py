"""Attach to a run that another home started: read its plan from the box; accept it only if the run's name proves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leasehold.errors import BoxError, UserError
from leasehold.kit.files.canonical_json import digest
from leasehold.kit.files.file_layouts import PLAN, NewerLayout, require
from leasehold.kit.files.paths import UnsafePath, check_name
from leasehold.kit.text.safe_text import one_line
from leasehold.ledger import books
from leasehold.lifecycle.box.dangers import say_once
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.launch.run_records import open_lease_on
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.machine.shared_meters import meet
from leasehold.model.job.keys import LOADERS
from leasehold.model.lease.lease import RunRecord
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import plan_from_dict

_MAX_PLAN_BYTES = 4 << 20


def adopt_run(home: Home, box: Box, word: str, results: Path, report: Report) -> RunRecord:
    """Find a run on the box by id, prefix or job name, and record it in this home's ledger."""
    with box.connect() as engine:
        there = {str(run["run"]): str(run.get("problem") or "") for run in engine.observe.runs()}
        run = _choose(list(there), word, box.name)
        if there[run]:
            raise BoxError("run.unreadable", f"{run} on {box.name} cannot be read: {one_line(there[run])}")
        value = _check_plan(b"".join(_bounded(engine.ranges.get(run, "run", "", "plan.json"))), run)
        held = books.lease_held(home.ledger, box.name, box.root)
        lease = open_lease_on(home, box, held.price if held else box.price, engine)
        meet(home, lease, (box, engine), report)
    job = value["job"]
    home.ledger.append(
        "run_planned", lease=lease.id, run=run, plan=value, name=job["name"], box=lease.box, project="",
        results=str(results),
    )  # fmt: skip
    report(Note("attached", f"{run} on {box.name} is now known here; another home started it", {"run": run}))
    say_once(home, box, home.shelf().load(box.platform), report)
    return books.find_run(home.ledger, run)


def _choose(names: list[str], word: str, box: str) -> str:
    fitting = [name for name in names if name == word] or [name for name in names if name.startswith(word)]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(names[:8]) or "none"
    what = "fits several runs" if fitting else "fits no run"
    raise UserError("run.unknown", f"{word!r} {what} on {box}", hint=f"runs there: {known}")


def _bounded(chunks: Any) -> Any:
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if total > _MAX_PLAN_BYTES:
            raise BoxError("run.damaged", "the plan on the box is larger than a plan can be")
        yield chunk


def _check_plan(data: bytes, run: str) -> dict[str, Any]:
    """Check that a plan fits its run's name, which holds the hash of the job and code; refuse any other."""
    try:
        value = json.loads(data)
        require(value, PLAN, f"the plan of {run}")
        plan = plan_from_dict(value)
        check_name(plan.run, "run")
        for cell in plan.cells:
            check_name(cell, "cell")
        named = digest({"job": plan.job.identity(), "tree": plan.code or plan.tree})[:10]
        fits = plan.run == run and named in run and plan.sha256 == value.get("plan_sha256")
        if not fits or any(artifact.loads not in LOADERS for artifact in plan.job.artifacts):
            raise ValueError("its hash does not fit its name")
    except NewerLayout as error:
        raise BoxError("layout.newer", one_line(str(error))) from None
    except (ValueError, KeyError, TypeError, AttributeError, UnsafePath) as error:
        raise BoxError("run.damaged", f"the plan of {run} on the box cannot be trusted: {error}") from None
    return dict(value)
