"""Adopt training that was started without us: find it, let a person choose, watch it, bring its results home."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from leasehold.errors import UserError
from leasehold.kit.text.safe_text import one_line
from leasehold.kit.text.units import utc_minute
from leasehold.lifecycle.box.dangers import say_once
from leasehold.lifecycle.box.lease_notes import note_reached, note_told
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.launch.open_box import connect
from leasehold.lifecycle.launch.run_records import open_lease_on
from leasehold.lifecycle.launch.take_over import whoami
from leasehold.lifecycle.machine.box import Box, find_box
from leasehold.lifecycle.machine.leased_box import box_called
from leasehold.lifecycle.machine.shared_meters import meet
from leasehold.lifecycle.preflight.gatekeeper import Gatekeeper
from leasehold.lifecycle.preflight.plan_inputs import judge_on_box, profile_on
from leasehold.lifecycle.project.code_tree import RESULTS, CodeTree
from leasehold.lifecycle.project.resolve import resolve
from leasehold.lifecycle.records.orders import AdoptOrder
from leasehold.lifecycle.tell import handbook, notify
from leasehold.model.job.job import Job
from leasehold.model.job.parse_job import parse_job
from leasehold.model.lease.lease import Lease
from leasehold.model.platform.plan_sheet import Wishes
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import Plan
from leasehold.model.values.money import HourlyPrice

_NO_CODE = CodeTree(Path("/nonexistent"), ())
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def candidates(home: Home, order: AdoptOrder, report: Report) -> list[dict[str, Any]]:
    """List what may be training on the box, most likely first; changes nothing."""
    with connect(home, box_called(home, order.box, root=order.root), report) as engine:
        return [_checked(item) for item in engine.box.adoptable(order.young_s)]


def adopt(home: Home, order: AdoptOrder, report: Report) -> str:
    """Make a run of a live process: from now on it is watched, and its results come home like those of any run."""
    box = find_box(home, order.box, root=order.root)
    price = str(HourlyPrice.parse(order.price)) if order.price else box.price
    results = (Path(order.results) if order.results else Path.cwd() / RESULTS).absolute()
    profile = profile_on(home, box)
    with connect(home, box, report) as engine:
        picked = _pick([_checked(item) for item in engine.box.adoptable(0.0)], order)
        job = _job(picked, order)
        plan = replace(resolve(job, _NO_CODE.sha256, profile), adopted=_adopted(picked, order))
        lease = open_lease_on(home, box, price, engine)
        meet(home, lease, (box, engine), report)
        home.ledger.append(
            "run_planned", lease=lease.id, run=plan.run, plan=plan.as_dict(), name=job.name, box=lease.box, project="",
            results=str(results),
        )  # fmt: skip
        note_reached(home.ledger, lease)
        note_told(home, lease)
        _warn_of_plan(home, box, plan, lease, report)
        say_once(home, box, profile, report)
        engine.uploads.push(_NO_CODE)
        wishes = notify.wishes(home, lease, job)
        stay = handbook.Stay(plan, lease, box, Path("."), results, "lease.yaml")
        facts = {**handbook.facts_of(home, stay, profile, len(wishes.get("channels", ()))), "project": ""}
        private: dict[str, Any] = {
            "notify": wishes,
            "handbook": facts,
            "who": whoami(),
            "environment": dict(plan.environment),
        }
        private = {**private, "alongside": True}  # the process already runs: nothing is started beside anything
        seen = engine.work.start(plan, home.ledger.home_id, private)
    home.ledger.append("run_seen", lease=lease.id, run=plan.run, state=seen["state"], seq=0, did=seen["did"])
    handbook.keep(home, plan.run, facts, seen)
    report(Note("adopted", _say(plan, picked, box), {"run": plan.run, "pid": picked["pid"]}))
    return plan.run


def _warn_of_plan(home: Home, box: Box, plan: Plan, lease: Lease, report: Report) -> None:
    """Judge it like a launch, by the folder that the process writes to; it already runs, so this only warns."""
    asked = Wishes(lease.price, root=str(plan.adopted["out"]))
    planned = judge_on_box(home, box, plan.job, asked, time.time())
    Gatekeeper(home.ledger, report, lease.id, plan.run).record(planned.verdict)
    for finding in planned.verdict.against():
        report(Note("warning", f"{finding.what}; {finding.hint}"))


def _pick(found: list[dict[str, Any]], order: AdoptOrder) -> dict[str, Any]:
    for one in found:
        if one["pid"] == order.pid:
            return one
    raise UserError(
        "adopt.unknown",
        f"pid {order.pid} on {order.box} is not an adoptable training process",
        hint=f"lease adopt {order.box} lists what is; ours, other users' and tools such as Jupyter are left out",
    )


def _job(picked: dict[str, Any], order: AdoptOrder) -> Job:
    if not order.artifacts:
        raise UserError(
            "adopt.no_promise",
            "say which files must come home",
            hint="--artifact 'best.pt' --artifact '*.json', relative to the output folder",
        )
    script = next((word for word in picked["command"].split() if word.endswith(".py")), "adopted")
    name = order.name or _NAME.sub("-", Path(script).stem).strip("-.") or "adopted"
    command = f"adopted: pid {picked['pid']}: {picked['command']}".replace("{{", "{ {").replace("}}", "} }")
    value = {"name": name, "run": command, "artifacts": list(order.artifacts), "attempts": 1}
    value["env"] = {"ADOPTED_PROCESS": f"{picked['pid']} {picked['started']}"}  # two processes are two runs
    return parse_job(value, "lease adopt")


def _adopted(picked: dict[str, Any], order: AdoptOrder) -> dict[str, Any]:
    out = order.out or picked["out"]
    if not out.startswith("/"):
        raise UserError(
            "adopt.no_folder", "its output folder could not be guessed", hint="--out /path/on/the/box, where it writes"
        )
    return {"pid": picked["pid"], "started": picked["started"], "log": order.log or picked["log"], "out": out}


def _say(plan: Plan, picked: dict[str, Any], box: Box) -> str:
    since = utc_minute(time.time() - picked["age_s"])
    log = plan.adopted["log"] or "nowhere that can be read"
    return (
        f"{plan.run} is pid {picked['pid']} on {box.name}, since {since}. It is watched, never started again;\n"
        f"  results: {plan.adopted['out']}; log: {log}"
    )


def _checked(item: dict[str, Any]) -> dict[str, Any]:
    """Accept only text and numbers from what a box reports of a process."""
    words = {key: one_line(str(item.get(key) or "")) for key in ("command", "cwd", "log", "out", "started")}
    numbers = {key: int(item.get(key) or 0) for key in ("pid", "age_s", "workers", "cpu_s")}
    lists = {key: [one_line(str(one)) for one in item.get(key) or []][:20] for key in ("gpus", "outputs")}
    return {**words, **numbers, **lists}
