"""Launch: one handshake, the code by hash, the caretaker detached; then a second connection proves the detachment."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import leasehold
from leasehold.errors import BoxError, LinkError, Refusal, UserError
from leasehold.gates.start.launching import judge_no_smoke
from leasehold.gates.start.never_rules import command_warnings
from leasehold.gates.start.platform_signs import SignReadings
from leasehold.kit.events.run_events import woken
from leasehold.kit.run import continued
from leasehold.ledger import books
from leasehold.lifecycle.box import reboot_consent
from leasehold.lifecycle.box.dangers import say_once
from leasehold.lifecycle.box.lease_notes import note_disks, note_reached, note_told, say_meter
from leasehold.lifecycle.box.platform_choice import readings
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box, closed_on_failure
from leasehold.lifecycle.machine.shared_meters import meet
from leasehold.lifecycle.money.budget import budget_for_box
from leasehold.lifecycle.preflight import gatekeeper as check
from leasehold.lifecycle.preflight.gatekeeper import Gatekeeper, Skips
from leasehold.lifecycle.preflight.plan_inputs import judge_on_box, profile_on
from leasehold.lifecycle.preflight.secret_tier import record_place, refuse_shared, warn_shared
from leasehold.lifecycle.project.code_tree import CodeTree
from leasehold.lifecycle.project.resolve import Share, environment_of, resolve
from leasehold.lifecycle.records.orders import Arrival, Bring, Where
from leasehold.lifecycle.results import kept_code
from leasehold.lifecycle.tell import handbook, notify
from leasehold.model.job.job import Job
from leasehold.model.lease.lease import Lease
from leasehold.model.lease.trained_time import checked_work
from leasehold.model.platform.plan_sheet import Wishes
from leasehold.model.platform.profile import Profile
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import Plan
from leasehold.model.run.verdict import Verdict
from leasehold.model.values.units import say_bytes
from leasehold.transport.process import LocalTransport

from .arrival import arrive
from .cluster import PodWish, give_back
from .earlier_run import as_begun, refuse_lost_thread
from .open_box import open_box
from .run_records import generation_on, open_lease_on, refuse_elsewhere, still_promised, written_down
from .take_over import whoami
from .upload import upload

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import RunSeen, StartAnswer
    from leasehold.platforms.contract import Engine


@dataclass(frozen=True)
class Launch:
    """A run that is on the box now."""

    plan: Plan
    lease: Lease
    box: Box
    results: Path
    seen: StartAnswer
    known_seq: int  # how far this home had already read the journal


@dataclass(frozen=True)
class Met:
    """An open connection to a box, and the verdict when it was chosen; no verdict where the run was found there."""

    engine: Engine
    audit: Verdict | None = None
    hogs: tuple[dict[str, Any], ...] = ()
    disks: tuple[dict[str, Any], ...] = ()
    signs: SignReadings | None = None  # what the audit compares with the box's platform


@dataclass(frozen=True)
class LaunchOrder:
    """A person's request, and what is already known of a box that was chosen from candidates."""

    box: Box
    results: Path
    price: str = ""
    balance: str = ""
    spot: bool = False
    again: bool = False
    alongside: bool = False
    skips: Skips = Skips()
    met: Met | None = None
    share: Share = Share()
    job_file: str = "lease.yaml"
    trains: bool = True  # downloads alone need no smoke
    absent_on: str = ""  # a lease whose box answered that it does not know the run
    stored: Plan | None = None  # continue with this exact plan and the code that it began with
    bring: Bring | None = None  # fetches what the run saved on other boxes


def launch(home: Home, order: LaunchOrder, job_tree: tuple[Any, CodeTree], report: Report) -> tuple[Launch, Engine]:
    """Start the run, attach to it, or resume it: whatever the identical command now means."""
    job, tree = job_tree
    box, ledger = order.box, home.ledger
    profile = profile_on(home, box, tree.project)
    _refuse_foreign_engine(profile)
    if box.root.startswith("/"):  # known before anything is recorded; a link there is only seen on the box
        refuse_shared(profile, box.root, job.secrets)
    engine, plan = order.met.engine if order.met else None, order.stored
    try:
        told = order.share.generation
        wanted = order.stored
        if plan is None or wanted is None:
            again = told if told >= 0 else generation_on(home, job, tree, box, report, again=order.again)
            wanted = resolve(job, tree.sha256, profile, again, order.share, tree.identity)
            plan = as_begun(ledger, still_promised(home, wanted), tree, report)
        leaves = order.absent_on or (order.bring.leaves(home, plan, Where(box.name, box.root)) if order.bring else "")
        refuse_elsewhere(home, plan, box, leaves)
        before = books.run_called(ledger, plan.run)
        engine = engine or open_box(home, box, _wish(order, plan), report)
        lease = open_lease_on(home, box, order.price, engine)
        note_told(home, lease, order.balance, order.spot)
        note_reached(ledger, lease)
        say_once(home, box, profile, report)
        refuse_company(engine, plan, alongside=order.alongside)
        before_start = engine.observe.look(plan.run)
        state = before_start["state"]
        if state == "absent":
            plan = plan.with_code_of(wanted)  # the code that it began with, if it ever began, is gone
            if order.trains and not (order.again or order.alongside or order.share.part):
                refuse_lost_thread(ledger, engine, plan, lease, tree, report)
            arrive(home, lease, (box, engine), None if leaves else before, order.results, report)
            _admit(home, (order, plan, lease), engine, (job, tree), profile, report)
        else:
            meet(home, lease, (box, engine), report)
        if tree.data and state in ("absent", "failed", "stopped"):
            engine = upload(box, engine, tree.data, report)
        arrival = _arrival((order, plan, lease), engine, profile, before_start, leaves)
        moved = order.bring.lay(home, arrival, report) if order.bring and arrival.cells and order.trains else {}
        with written_down(home, plan, lease, tree, (order.results, order.job_file)) as known_seq:
            asked = (order, plan, lease)
            facts, private, seen = _ask_to_start(home, asked, engine, profile, tree, state, moved, report)
    except BaseException as error:
        if engine is not None:
            if not isinstance(error, LinkError) and plan is not None:
                give_back(box, engine, plan, report)
            engine.close()
        raise
    if tree.sha256 == plan.tree:
        kept_code.keep(ledger, tree)
    handbook.keep(home, plan.run, facts, seen)
    record_place(ledger, (lease.id, plan.run), seen, report)
    ledger.append(
        "run_seen", lease=lease.id, run=plan.run, state=seen["state"], seq=known_seq, did=seen["did"],
        work=checked_work(seen.get("work")), trains_again=_train_again(seen, private["given_up"], report),
    )  # fmt: skip
    if order.bring and (moved or leaves):
        order.bring.started(home, arrival, report)
    return Launch(plan, lease, box, order.results, seen, known_seq), engine


def _admit(
    home: Home, asked: tuple[LaunchOrder, Plan, Lease], engine: Engine, job_tree: tuple[Any, CodeTree],
    profile: Profile, report: Report,
) -> None:  # fmt: skip
    """Pass the gates of a box that does not know the run."""
    order, plan, lease = asked
    job, tree = job_tree
    gatekeeper = Gatekeeper(home.ledger, report, lease.id, plan.run, order.skips)
    _pass_plan(home, order, engine, job_tree, gatekeeper)
    if order.trains and not job.smoke and (meter := say_meter(profile, lease)):
        gatekeeper.pass_through(judge_no_smoke(job.name, order.box.name, meter))
    met = order.met or Met(engine)
    signs = None if met.audit else readings(home.shelf(tree.project), order.box, bool(order.price or lease.price))
    _pass_gates(replace(met, signs=signs), profile, job_tree, gatekeeper, lease)


def _arrival(
    asked: tuple[LaunchOrder, Plan, Lease], engine: Engine, profile: Profile, seen: RunSeen, leaves: str
) -> Arrival:
    """Describe what is about to start, and which cells have not begun on this box."""
    order, plan, lease = asked
    state = str(seen["state"])
    anew = bool(leaves) and state in ("absent", "failed", "stopped")
    new = tuple(cell for cell in plan.cells if anew or cell not in seen.get("cells", {}))
    return Arrival(Where(order.box.name, order.box.root), engine, lease, profile, plan, new, order.results, state)


def _wish(order: LaunchOrder, plan: Plan) -> PodWish:
    return PodWish(plan, secret_values(plan.job), metered=bool(order.price), skips=order.skips)


def _ask_to_start(
    home: Home, asked: tuple[LaunchOrder, Plan, Lease], engine: Engine, profile: Profile, tree: CodeTree,
    state: str, moved: Mapping[str, Any], report: Report,
) -> tuple[dict[str, Any], dict[str, Any], StartAnswer]:  # fmt: skip
    """Push the code; have the box start, attach or resume; return the handbook's facts, what was sent, the answer."""
    order, plan, lease = asked
    box, job = order.box, plan.job
    starts = state in ("absent", "failed", "stopped")
    _refuse_shared(engine, profile, job, notify.wishes(home, lease, job), report if starts else None)
    private = {**_private(home, plan, lease), "gate": check.gate_wishes(job, tree, order.skips)}
    private["relaunch"] = reboot_consent.ways_for(home, box, plan, profile, report)
    private["budget"] = budget_for_box(home, plan.run, report, refuse=starts)
    stay = handbook.Stay(plan, lease, box, tree.project, order.results, order.job_file)
    facts = handbook.facts_of(home, stay, profile, len(private["notify"].get("channels", ())))
    version, given = leasehold.__version__, dict(order.share.given)
    private = {**private, **moved, "handbook": facts, "who": whoami(), "version": version, "given": given}
    private["given_up"] = [*books.find_run(home.ledger, plan.run).waived]
    private["alongside"] = order.alongside
    private["note_root"] = not isinstance(box.transport, LocalTransport)
    seen = _begin(engine, plan, tree, (home.ledger.home_id, private), report)
    return facts, private, seen


def prove_detached(home: Home, launched: Launch, report: Report) -> Engine:
    """Check over a second connection whether the run lives on without the first; return that connection."""
    engine = launched.box.connect()
    with closed_on_failure(engine):
        _look_for_life(home, launched, engine.observe.look(launched.plan.run), report)
    return engine


def _look_for_life(home: Home, launched: Launch, seen: RunSeen, report: Report) -> None:
    if seen["terminal"]:
        return  # it ended before we could look: nothing left to detach
    if seen["caretaker_alive"]:
        text = f"detached by {seen['detach'] or 'its keeper'}: seen alive over a second connection"
        report(Note("detach_proven", text, {"detach": seen["detach"]}))
        home.ledger.append("detach_proven", lease=launched.lease.id, run=launched.plan.run, detach=seen["detach"])
        return
    raise BoxError(
        "box.detach_unproven",
        f"the caretaker did not outlive the first connection (detached by {seen['detach'] or 'nothing'})",
        seen=f"state {seen['state']}, no caretaker on {launched.box.name}",
        hint="this box ends processes at logout: install tmux there, or `loginctl enable-linger`, then run again",
    )


def _refuse_shared(
    engine: Engine, profile: Profile, job: Job, wishes: Mapping[str, Any], report: Report | None
) -> None:
    """Refuse to send private data, notification addresses included, to a box that has only a shared disk for it."""
    private = (*job.secrets, *(("the addresses of lease notify",) if wishes else ()))
    if private:
        seen = engine.box.probe()
        refuse_shared(profile, str(seen.get("real_root") or seen["root"]), private)
        if report is not None:
            warn_shared(profile, seen, private, report)


def refuse_company(engine: Engine, plan: Plan, *, alongside: bool) -> None:
    """Refuse to start a second trainer beside the first just because the project changed."""
    if alongside:
        return
    family = re.compile(re.escape(plan.job.name[:60]) + r"-[0-9a-f]{10}(?:-\d+)?(?:-b[0-9a-f]{6})?\Z")
    for other in engine.observe.runs():
        same_job = other["run"] != plan.run and family.match(str(other["run"]))
        if same_job and not other["terminal"] and other["state"] != "absent":
            raise Refusal(
                "run.company",
                f"{other['run']} of the same job is {other['state']} on this box; the code or job changed since",
                hint=f"lease watch {other['run']}, or lease stop {other['run']}, or lease run --alongside",
            )


def _refuse_foreign_engine(profile: Profile) -> None:
    if profile.runnable:
        return
    raise UserError(
        "engine.missing", f"this version cannot start work on {profile.title}: it has no {profile.engine} engine yet",
        hint="lease plan and lease platforms know it; a login node or notebook with SSH is --platform generic-ssh",
    )  # fmt: skip


def _pass_plan(
    home: Home, order: LaunchOrder, engine: Engine, job_tree: tuple[Job, CodeTree], gatekeeper: Gatekeeper
) -> None:
    """Pass the plan gate with what is known of the box and its folder, as the box itself resolves it."""
    job, tree = job_tree
    seen = engine.box.probe()
    given = [cell for cell in job.cells if not order.share.cells or cell.name in order.share.cells]
    asked = Wishes(order.price, order.balance, spot=order.spot, root=str(seen.get("real_root") or seen["root"]))
    planned = judge_on_box(home, order.box, replace(job, cells=tuple(given)), asked, time.time(), tree.project)
    for text in command_warnings(job, planned.sheet.profile):
        gatekeeper.report(Note("warning", text))
    gatekeeper.pass_through(planned.verdict)
    for finding in planned.verdict.against():
        gatekeeper.report(Note("warning", f"{finding.what}; {finding.hint}"))
    if planned.grace:
        gatekeeper.report(Note("warning", planned.grace))


def _pass_gates(
    met: Met, profile: Profile, job_tree: tuple[Job, CodeTree], gatekeeper: Gatekeeper, lease: Lease
) -> None:
    """Check over the same connection that the box is fit and that its interpreter finds what the job needs."""
    job, tree = job_tree
    engine = met.engine
    disks = list(met.disks)
    wish = check.AuditWish(note_disks=disks.extend, code_inodes=tree.inodes, signs=met.signs)
    verdict, hogs = (met.audit, met.hogs) if met.audit else check.audit(engine, job, profile, wish)
    note_disks(gatekeeper.ledger, lease, profile, disks)
    for hog in hogs:
        gatekeeper.report(Note("hogs", check.say_hogs(hog), hog))
    gatekeeper.pass_through(verdict)
    platform = environment_of(profile)
    findings = check.credentials(engine, job, secret_values(job), platform).findings
    key = check.environment_key(job, tree, platform)
    asked = check.needs_environment(job, tree) and not check.passed_before(gatekeeper.ledger, gatekeeper.lease, key)
    judged = check.environment(engine, check.met_here(job, profile), tree, platform) if asked else None
    findings += judged.findings if judged else ()
    if findings:
        gatekeeper.pass_through(Verdict("env", findings))
    if judged and judged.passed:
        gatekeeper.ledger.append("env_passed", lease=gatekeeper.lease, run=gatekeeper.run, key=key)


def secret_values(job: Job, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Read the job's secrets from this home's environment; a missing one is reported before anything starts."""
    missing = [name for name in job.secrets if not environ.get(name)]
    if missing:
        raise UserError(
            "secret.missing", f"the job needs {', '.join(missing)}, and your environment does not have it",
            hint=f"export {missing[0]}=… (its value is sent over the wire to a 0600 file, never stored here)",
        )  # fmt: skip
    return {name: environ[name] for name in job.secrets}


def _private(home: Home, plan: Plan, lease: Lease) -> dict[str, Any]:
    private = {"secrets": secret_values(plan.job), "notify": notify.wishes(home, lease, plan.job)}
    return {**private, "environment": dict(plan.environment)}


def _begin(engine: Engine, plan: Plan, tree: CodeTree, mine: tuple[str, dict[str, Any]], report: Report) -> StartAnswer:
    home_id, private = mine
    pushed = engine.uploads.push(tree) if tree.sha256 == plan.tree else None  # else the box has had it since the start
    if pushed:
        size = f"{pushed.files} of {len(tree.entries)} files sent, {say_bytes(pushed.bytes)}"
        data = {"files": pushed.files, "bytes": pushed.bytes, "of_files": len(tree.entries)}
        report(Note("code_pushed", f"code {tree.sha256[:12]} pushed: {size}; hash checked on the box", data))
    seen = engine.work.start(plan, home_id, private)
    for one in seen.get("woken") or ():
        report(Note("warning", woken(one["what"], one["pid"])))
    if seen["did"] == "attached" and seen["state"] in ("failed", "stopped") and _is_owed(seen, private["given_up"]):
        report(Note("resuming", f"the run had {seen['state']} ({seen['reason']}); starting it again"))
        seen = engine.work.resume(plan.run, seen["seq"], home_id, {**private, "patterns": plan.patterns})
    reboot_consent.tell(seen, report)
    report(
        Note(
            "launched",
            f"run {plan.run}: {_SAYS.get(seen['did'], seen['did'])}",
            {"run": plan.run, "did": seen["did"]},
        )
    )
    return seen


def _is_owed(seen: RunSeen, given_up: list[str]) -> bool:
    """Return whether a cell that nobody gave up has not finished; without cells the run only fetches."""
    unfinished = {name for name, cell in seen["cells"].items() if cell["state"] != "finished"}
    return not unfinished or not unfinished <= set(given_up)


def _train_again(seen: StartAnswer, given_up: list[str], report: Report) -> list[str]:
    """List the given-up cells that this start trains again, and report them: their waivers end."""
    if not given_up or seen["did"] not in ("opened", "resumed"):
        return []
    kept = [name for name in given_up if seen["did"] == "resumed" and name in seen.get("kept", ())]
    if kept:
        text = f"given up, and not trained again: {', '.join(kept)}"
        report(Note("given_up", f"{text}; lease waive {seen['run']} CELL --take-back would", {"cells": kept}))
    anew = [name for name in given_up if name not in kept]
    if anew:
        text = f"given up before, and trained again now: {', '.join(anew)}; those waivers no longer count"
        report(Note("warning", text, {"cells": anew}))
    return anew


_SAYS = {
    "opened": "started",
    "attached": "already there, attached",
    "added": "its new cells joined it",
    "revived": "its caretaker had died; revived, the run goes on",
    "resumed": continued.STARTED_AGAIN,
}
