"""Run a job from start to end: launch, watch, bring home, verify."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.errors import BoxError, LeaseholdError, LinkError, NotDurable, Refusal, RunFailed, VerifyError
from leasehold.gates.start.launching import judge_launch
from leasehold.gates.start.never_rules import judge_smoke_command, smoke_warnings
from leasehold.kit.failure.remedies import RENT_AGAIN
from leasehold.kit.text.safe_text import plain
from leasehold.ledger import books
from leasehold.lifecycle.box.health import STALE_BEAT_S, setbacks_of, warnings_of
from leasehold.lifecycle.box.lease_notes import checked_amount
from leasehold.lifecycle.ending.parking import park_when_done
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.launch.cluster import box_for_job
from leasehold.lifecycle.launch.launch import Launch, LaunchOrder, launch, prove_detached, secret_values
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.preflight.gatekeeper import Gatekeeper, Skips
from leasehold.lifecycle.preflight.unread_parameters import unread
from leasehold.lifecycle.project.code_tree import RESULTS, CodeTree, refuse_crlf
from leasehold.lifecycle.project.excluded import say_home_stays
from leasehold.lifecycle.project.ignored_data import say_of_job
from leasehold.lifecycle.project.job_yaml import read_job
from leasehold.lifecycle.project.resolve import Share, refuse_unfilled
from leasehold.lifecycle.project.run_inputs import gather
from leasehold.lifecycle.records.orders import RunOrder, RunOutcome
from leasehold.lifecycle.results.pull_until_done import pull_home
from leasehold.lifecycle.smoke.passes import passed_before, smoke_key
from leasehold.lifecycle.smoke.smoke import smoke
from leasehold.lifecycle.watch.pull_finished_cells import Harvest
from leasehold.lifecycle.watch.side_duties import Minder
from leasehold.lifecycle.watch.watch import Watch
from leasehold.model.job.job import Job
from leasehold.model.lease.box import LOCAL
from leasehold.model.run.note import Note, Report, silent
from leasehold.model.run.plan import Plan
from leasehold.model.run.receipt import Receipt
from leasehold.model.run.verdict import Outcome, Verdict
from leasehold.model.values.money import HourlyPrice
from leasehold.model.values.wording import ago
from leasehold.transport.here import refuse_as_box, refuse_links
from leasehold.transport.process import LocalTransport

from .candidates import Chosen, choose

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine


_ATTACH_TAIL_BYTES = 2000
_LAUNCH_PROBE_S = 60.0
_SETTLE_S = 1.5
_SIGN_OF_LIFE_S = 20.0  # a caretaker that was just continued needs a moment, longer on a busy box
_LOG_LOOK_BYTES = 200_000


class End(NamedTuple):
    """A run's end, according to its journal."""

    state: str
    reason: str
    cause: str = ""


def run_through(home: Home, order: RunOrder, box: Box | None, report: Report) -> RunOutcome:
    """Launch, watch, bring home and verify; the identical call attaches, resumes or finds it done.

    Without a box, the job's candidates are tried.
    """
    launch_order, job_tree = _prepare(home, order, box, report)
    launched, engine = launch(home, launch_order, job_tree, report)
    plan, seen = launched.plan, launched.seen
    if seen["did"] == "attached" and seen["terminal"]:
        return _finish(home, plan.run, End(seen["state"], seen["reason"], str(seen.get("cause", ""))), engine, report)
    tail_bytes = _ATTACH_TAIL_BYTES if seen["did"] == "attached" else -1
    harvest = Harvest(home, plan.run, report, order.at_risk_s)  # pulls finished cells while the watch goes on
    watch = Watch(
        plan.run, launched.lease.id, launched.box,
        tail_bytes=tail_bytes, minder=Minder(home, plan.run), on_change=(harvest.stands,),
    )  # fmt: skip
    watch.patience_s = order.patience_s or watch.patience_s
    second: Engine | None = engine
    probe: Verdict | None = None
    if seen["did"] != "opened":
        watch.quiet_to_seq = launched.known_seq  # what happened while this home was away is reported
    if seen["did"] == "resumed":
        watch.pass_over(seen["cells"])
    if seen["did"] != "attached":
        probe = _first_line(home, watch, engine, launched, launch_order.skips, report)
        second = _second_connection(home, launched, watch, report)
    if order.detach:
        if second is not None:
            with second:
                probe = _settle(second, plan, watch) or probe
        _refuse_bad_start(probe, order, plan.run)
        return RunOutcome(plan.run, launched.lease.id, watch.state.state)
    state, engine = watch.follow_to_end(home.ledger, second, report)
    harvest.end()
    return _finish(home, plan.run, End(state.state, state.reason, state.cause), engine, report)


def give_more(home: Home, order: RunOrder, box: Box) -> None:
    """Give a working run more cells; whoever watches it will see them."""
    launch_order, job_tree = _prepare(home, order, box, silent)
    engine = launch(home, launch_order, job_tree, silent)[1]
    engine.close()


def _first_line(home: Home, watch: Watch, engine: Engine, launched: Launch, skips: Skips, report: Report) -> Verdict:
    """Wait on the first connection for the trainer's first output; that connection is not needed afterwards."""
    heard: list[str] = []

    def listen(note: Note) -> None:
        if note.kind == "log":
            heard.append(note.text)
        report(note)

    begun = time.monotonic()
    with engine:
        try:
            watch.until_first_line(home.ledger, engine, listen, _LAUNCH_PROBE_S)
        except LinkError as error:
            watch.say_unknown(error, 0, report)
    alive = watch.state.state in ("running", "finished")
    first_line = watch.started_log or alive and watch.state.terminal
    waited_s = time.monotonic() - begun
    verdict = judge_launch(alive, first_line, "\n".join(heard), waited_s, watch.comes_first)
    gatekeeper = Gatekeeper(home.ledger, report, launched.lease.id, launched.plan.run, skips)
    gatekeeper.record(verdict, "launch" in skips.names)
    return verdict


def _second_connection(home: Home, launched: Launch, watch: Watch, report: Report) -> Engine | None:
    try:
        return prove_detached(home, launched, report)
    except LinkError as error:  # it counts as launched; the watch will find out
        watch.say_unknown(error, 0, report)
        return None


def _settle(engine: Engine, plan: Plan, watch: Watch) -> Verdict | None:
    """Wait a moment before detaching: most broken starts print a line first and die within the next second."""
    cell = plan.cells[0]
    deadline = time.monotonic() + _SETTLE_S
    seen = engine.observe.look(plan.run)
    patience = deadline + _SIGN_OF_LIFE_S
    while not seen["terminal"] and time.monotonic() < (patience if _is_silent(seen) else deadline):
        time.sleep(0.2)
        seen = engine.observe.look(plan.run)
    watch.state.state = str(seen["state"])
    _require_sign_of_life(seen, plan.run, watch.box.name)
    state = seen["cells"].get(cell, {})
    if not state.get("attempt"):
        return None
    log = b"".join(engine.observe.tail(plan.run, cell, int(state["attempt"]), 0, 0))[-_LOG_LOOK_BYTES:]
    alive = bool(state.get("alive")) or seen["state"] in ("running", "finished")
    return judge_launch(alive, bool(log.strip()), plain(log.decode("utf-8", "replace")), _SETTLE_S)


def _is_silent(seen: Mapping[str, Any]) -> bool:
    age_s = seen.get("proof_age_s")
    return isinstance(age_s, int | float) and age_s > STALE_BEAT_S


def _require_sign_of_life(seen: Mapping[str, Any], run: str, box: str) -> None:
    """Refuse to report that a run goes on if only its box answers."""
    if seen["terminal"] or not _is_silent(seen):
        return
    age = ago(float(seen["proof_age_s"]))
    raise BoxError(
        "run.silent",
        f"{run} is on {box}; whether it goes on is unknown: its caretaker has given no sign of life for {age}",
        hint=f"lease stop {run} ends it without its caretaker; then the identical command resumes it",
    )


def _refuse_bad_start(probe: Verdict | None, order: RunOrder, run: str) -> None:
    """Refuse to report success for a run that shows a traceback in its first lines."""
    if probe is None or probe.outcome is not Outcome.REFUSED or "launch" in order.skip_gates:
        return
    seen, _ = probe.objections("")
    raise Refusal(
        "launch.refused",
        f"{run} started badly; it is still on the box",
        seen=seen,
        hint=f"lease doctor {run}, or lease logs {run}",
    )


def _prepare(home: Home, order: RunOrder, box: Box | None, report: Report) -> tuple[LaunchOrder, tuple[Job, CodeTree]]:
    refuse_links()  # nothing is recorded where nothing could be launched
    job = order.prepared[0] if order.prepared else read_job(order.job_file)
    if order.stored is None:
        refuse_unfilled(job, order.job_file)
    skips = Skips(order.skip_gates, order.because)
    price, balance = str(HourlyPrice.parse(order.price)) if order.price else "", checked_amount(order.balance)
    secret_values(job)
    if box is not None and isinstance(box.transport, LocalTransport):
        refuse_as_box()  # before the smoke takes its time
    project = order.job_file.absolute().parent
    results = (order.results or project / RESULTS).absolute()
    job, tree = order.prepared or gather(home, job, order.job_file, results, report)
    if order.stored is None:
        refuse_crlf(tree)
    if not order.prepared and (stays := say_home_stays(home, tree.folder, tree.left_out)):
        report(Note("warning", stays))
    if not order.prepared and (missed := say_of_job(home, job, order.job_file, results)):
        report(Note("warning", missed))
    if job.cells and not order.cells and (warning := unread(job, tree)):  # a fleet reports it once
        report(Note("warning", warning))
    if order.stored is None:
        pass_smoke(home, (job, tree), Gatekeeper(home.ledger, report, skips=skips))
    chosen = choose(home, order, (job, tree), report) if box is None else Chosen(box_for_job(box, job, tree))
    wanted = LaunchOrder(chosen.box, results, price or chosen.box.price, balance, order.spot, order.again)
    known = replace(
        wanted,
        alongside=order.alongside,
        skips=skips,
        met=chosen.met,
        absent_on=chosen.absent_on,
        job_file=order.job_file.name,
        stored=order.stored,
        bring=order.bring,
    )
    return replace(known, share=Share(order.cells, order.part, order.generation, order.given)), (job, tree)


def pass_smoke(home: Home, job_tree: tuple[Job, CodeTree], gatekeeper: Gatekeeper, *, kill_check: bool = False) -> None:
    """Run the smoke before anything is rented or launched, once per code and job."""
    job, tree = job_tree
    if not job.smoke:
        return
    if "smoke" in gatekeeper.skips.names:
        home.ledger.append("gate_judged", gate="smoke", skipped=True, because=gatekeeper.skips.because)
        gatekeeper.report(Note("warning", f"gate smoke was skipped because: {gatekeeper.skips.because}"))
        return
    if not kill_check and passed_before(home.ledger, job, tree):
        gatekeeper.report(Note("smoke_cached", "smoke: passed before, with the same code and job"))
        return
    here = home.shelf(tree.folder).load(LOCAL)
    for text in smoke_warnings(job, here):
        gatekeeper.report(Note("warning", text))
    if never := judge_smoke_command(job, here):
        gatekeeper.pass_through(Verdict("smoke", tuple(never)))
    verdict = smoke(job, tree, gatekeeper.report, kill_check=kill_check)
    gatekeeper.pass_through(verdict)
    if verdict.passed:
        home.ledger.append("smoke_passed", key=smoke_key(job, tree.identity))


def _save_what_is_done(home: Home, run_id: str, engine: Engine, report: Report) -> None:
    """Bring home what is finished before a failure is reported: a run may fail although a cell did not."""
    cells = engine.observe.look(run_id)["cells"].values()
    finished = sum(cell["state"] == "finished" for cell in cells)
    if not finished:
        engine.close()
        return
    what = "training itself finished" if finished == len(cells) else f"{finished} of {len(cells)} cells are finished"
    report(Note("warning", f"{what}, so {'its' if finished == len(cells) else 'their'} results come home now"))
    try:
        pull_home(home, books.find_run(home.ledger, run_id), report, engine)
    except VerifyError as error:  # the failure itself is raised
        report(Note("warning", f"{error.message}; {error.hint}"))


def _finish(home: Home, run_id: str, end: End, engine: Engine, report: Report) -> RunOutcome:
    if end.state != "finished" and end.reason.startswith("disk.short: "):
        engine.close()
        hint = "make room or take a larger disk, then run the identical command; lease box disk shows what lies there"
        raise Refusal("disk.short", f"{run_id}: {end.reason.partition(': ')[2]}", hint=hint)
    seen_last = engine.observe.look(run_id)
    if end.state == "finished":
        for text in warnings_of(seen_last["cells"]):
            report(Note("warning", text))
    for text in setbacks_of(seen_last["cells"]):
        report(Note("warning", text))
    record = books.find_run(home.ledger, run_id)
    new = bool(record.owed())
    if end.state != "finished":
        _save_what_is_done(home, run_id, engine, report)
        receipt = _settled_by_waivers(home, run_id, end, report, broken=_box_broke(seen_last))
    else:
        receipt = pull_home(home, record, report, engine)
    record = books.find_run(home.ledger, run_id)
    if new:  # a box that was powered on again to read an old run stays on
        park_when_done(home, record, report)
    return RunOutcome(run_id, record.lease, end.state, record.home_since, receipt)


def _box_broke(seen: Mapping[str, Any]) -> bool:
    """Return whether the remedy of a failed cell is another box."""
    return any(cell.get("remedy") == RENT_AGAIN and cell["state"] == "failed" for cell in seen["cells"].values())


def _settled_by_waivers(home: Home, run_id: str, end: End, report: Report, *, broken: bool) -> Receipt:
    """Return the receipt of a run whose cells are all home or given up by a person; otherwise the run failed."""
    record = books.find_run(home.ledger, run_id)
    receipt = books.receipt_of(record)
    if record.owed() or end.cause or not record.waived:
        failure = _failure(run_id, end)
        if isinstance(failure, RunFailed):
            failure.leaves = run_id if broken else ""
        raise failure
    if receipt is None:
        hint = f"lease waive {run_id} {record.waived[0]} --take-back, then the same lease run resumes it"
        raise RunFailed("run.given_up", f"{run_id} was given up by a person, so it is not trained again", hint=hint)
    report(Note("given_up", f"all else is home; given up by a person: {', '.join(record.waived)}"))
    return receipt


def _failure(run_id: str, end: End) -> LeaseholdError:
    if end.cause == "durable":
        return NotDurable(
            "durable.not_copied",
            f"{run_id} trained to its end, but {end.reason}",
            hint="make room there or attach it, then the identical lease run: it copies again and trains nothing",
        )
    return RunFailed(
        f"run.{end.state}",
        f"{run_id} {end.state}: {end.reason}",
        hint=f"lease doctor {run_id} says why; lease pull {run_id} brings what it left; "
        f"lease resume {run_id} goes on with it, or the identical lease run",
    )
