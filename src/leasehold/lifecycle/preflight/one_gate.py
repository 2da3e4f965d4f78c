"""Single gates: `lease check plan|audit|env|smoke|launch` measures, judges and shows, and starts nothing."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import UserError
from leasehold.gates.start.environment import verdict_of
from leasehold.gates.start.launching import judge_launch
from leasehold.gates.start.never_rules import judge_smoke_command, smoke_warnings
from leasehold.kit.tables.trackers import tracker_of
from leasehold.ledger import books
from leasehold.lifecycle.box.platform_choice import readings
from leasehold.lifecycle.box.shared_disk import company
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box, find_box
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.project.code_tree import RESULTS, CodeTree
from leasehold.lifecycle.project.excluded import say_home_stays
from leasehold.lifecycle.project.job_yaml import read_job
from leasehold.lifecycle.project.resolve import environment_of, refuse_unfilled, run_id
from leasehold.lifecycle.project.run_inputs import gather
from leasehold.lifecycle.smoke.log_lines import LogLines
from leasehold.lifecycle.smoke.passes import smoke_key
from leasehold.lifecycle.smoke.smoke import smoke
from leasehold.model.job.job import Job
from leasehold.model.lease.box import K8S, LOCAL
from leasehold.model.platform.plan_sheet import Wishes
from leasehold.model.run.note import Note, Report
from leasehold.model.run.verdict import Finding, Outcome, Verdict

from . import gatekeeper
from .cluster_audit import judge_cluster
from .plan_candidates import plan_candidates
from .plan_inputs import profile_on

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine


def check_gate(home: Home, gate: str, job_file: Path, box_name: str, report: Report, **wishes: Any) -> Verdict:
    """Run a single gate and record its verdict."""
    if gate == "launch":
        raise UserError("gate.needs_run", "the launch probe looks at a run", hint="lease check launch RUN")
    if wishes.get("other") and gate != "audit":
        raise UserError("gate.only_audit", f"--with is for the audit gate, not for {gate}", hint="leave it out")
    job = read_job(job_file)
    if gate == "smoke":
        refuse_unfilled(job, job_file)
    project = job_file.absolute().parent
    job, tree = gather(home, job, job_file, project / RESULTS, report)
    if stays := say_home_stays(home, tree.folder, tree.left_out):
        report(Note("warning", stays))
    if gate == "plan":
        verdict = _plan(home, job, box_name, project, report, str(wishes.get("root") or ""))
        home.ledger.append("gate_judged", lease="", run="", alone=True, **verdict.as_dict())
        return verdict
    verdict = _judge(home, gate, (job, tree), find_box(home, box_name, root=wishes.get("root", "")), report, wishes)
    home.ledger.append("gate_judged", lease="", run="", alone=True, **verdict.as_dict())
    return verdict


def _plan(home: Home, job: Job, box_name: str, project: Path, report: Report, root: str) -> Verdict:
    """Judge the plan as `lease plan --on BOX` does; connect to nothing."""
    planned = next(plan_candidates(home, job, (box_name,), Wishes(root=root), (project, time.time())))
    for text in planned.warnings:
        report(Note("warning", text))
    return planned.verdict


def check_launch(home: Home, word: str) -> Verdict:
    """Check a launched run: alive, first line printed, no traceback."""
    record = books.find_run(home.ledger, word)
    with box_of(home, books.find_lease(home.ledger, record.lease)).connect() as engine:
        seen = engine.observe.look(record.run)
        cell = next(iter(json.loads(record.plan_json)["cells"]))
        state = seen["cells"].get(cell, {})
        lines, text = LogLines(), ""
        for chunk in engine.observe.tail(record.run, cell, int(state.get("attempt", 0)), 0, 0):
            text = (text + lines.add(chunk))[-200_000:]
        text += lines.rest()
    age_s = float(seen["now_unix"]) - float(state.get("started_unix") or seen["now_unix"])
    alive = bool(state.get("alive")) or seen["state"] == "finished"
    verdict = judge_launch(alive, bool(text.strip()), text, age_s)
    home.ledger.append("gate_judged", lease=record.lease, run=record.run, alone=True, **verdict.as_dict())
    return verdict


def _judge(
    home: Home, gate: str, job_tree: tuple[Job, CodeTree], box: Box, report: Report, wishes: dict[str, Any]
) -> Verdict:
    job, tree = job_tree
    if gate == "smoke":
        if not job.smoke:
            raise UserError(
                "smoke.none", f"the job {job.name} has no smoke", hint="add: smoke: python train.py --steps 3"
            )
        here = home.shelf(tree.folder).load(LOCAL)
        for text in smoke_warnings(job, here):
            report(Note("warning", text))
        if never := judge_smoke_command(job, here):
            return Verdict("smoke", tuple(never))
        verdict = smoke(job, tree, report, kill_check=bool(wishes.get("kill_check")))
        if verdict.passed:
            home.ledger.append("smoke_passed", key=smoke_key(job, tree.identity))  # lease run need not repeat the smoke
        return verdict
    if box.name.startswith(K8S) and gate == "audit":
        return judge_cluster(box, job)
    profile, other = profile_on(home, box, tree.folder), str(wishes.get("other") or "")
    with_whom = company(home, box, other, profile) if other else None
    with box.connect() as engine:
        if gate == "env":
            return _environment(engine, job, tree, environment_of(profile))
        signs = readings(home.shelf(tree.folder), box, bool(box.price))
        wish = gatekeeper.AuditWish(bool(wishes.get("deep")), with_whom, code_inodes=tree.inodes, signs=signs)
        verdict, hogs = gatekeeper.audit(engine, job, profile, wish)
        for hog in hogs:
            report(Note("hogs", gatekeeper.say_hogs(hog), hog))
        return verdict


def _environment(engine: Engine, job: Job, tree: CodeTree, platform: dict[str, Any]) -> Verdict:
    """Check trackers and interpreter now; a run already on the box adds what it found after its set-up."""
    findings = [*gatekeeper.environment(engine, job, tree, platform).findings]
    values = {name: os.environ[name] for name in job.secrets if os.environ.get(name)}
    findings += gatekeeper.credentials(engine, job, values, platform).findings
    for name in job.secrets:
        if name not in values and tracker_of(name) is not None:
            hint = f"export {name}=… here to have it checked; lease run needs it anyway"
            findings.append(Finding(Outcome.UNKNOWN, f"{name} is not in your environment, so it was not checked", hint))
    first = run_id(job, tree.identity)
    if not job.setup:
        return Verdict("env", tuple(findings))
    ours = [
        str(seen["run"])
        for seen in engine.observe.runs()
        if re.fullmatch(re.escape(first) + r"(-\d+)?", str(seen["run"]))
    ]
    for run in ours[-1:]:
        events = [event for batch in engine.observe.events(run, 0, 0) for event in batch["events"]]
        judged = [event for event in events if event.get("k") == "env_judged"]
        for event in judged[-1:]:
            for one in verdict_of(event.get("findings")).findings:
                findings.append(Finding(one.outcome, f"{run}, after set-up: {one.what}", one.hint))
    return Verdict("env", tuple(findings))
