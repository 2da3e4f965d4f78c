"""One function a verb: each returns data and reports what it does; shells only parse and render."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import LeaseholdError, LinkError, RunFailed, UserError
from leasehold.ledger import books
from leasehold.lifecycle.home import Home
from leasehold.model.lease import Lease, RunRecord
from leasehold.model.note import Note, Report

if TYPE_CHECKING:
    from leasehold.lifecycle.teardown import TeardownPlan
    from leasehold.lifecycle.watch import Watch
    from leasehold.model.receipt import Receipt
    from leasehold.platforms.contract import Landlord
    from leasehold.platforms.engines.caretaker import CaretakerEngine

_ATTACH_TAIL_BYTES = 2000

# Stages are imported inside the verbs: `lease status` must not pay for ssh, yaml or transfer.


@dataclass(frozen=True)
class RunOrder:
    """What `lease run` was asked for."""

    job_file: Path
    on: str = "local"
    root: str = ""
    rehearse: bool = False
    price: str = ""
    results: Path | None = None
    detach: bool = False
    again: bool = False
    alongside: bool = False


@dataclass(frozen=True)
class RunOutcome:
    """How `lease run` ended: the run, its state, and the receipt if its results are home."""

    run: str
    lease: str
    state: str
    export: str = ""
    receipt: Receipt | None = None


def run(home: Home, order: RunOrder, report: Report) -> RunOutcome:
    """Launch, watch, bring home and verify; the identical call attaches, resumes or finds it done."""
    from leasehold.lifecycle.launch import launch, prove_detached
    from leasehold.lifecycle.watch import Watch

    launch_order, job_tree = _prepare(home, order, report)
    launched, engine = launch(home, launch_order, job_tree, report)
    plan, seen = launched.plan, launched.seen
    if seen["did"] == "attached" and seen["terminal"]:
        return _finish(home, plan.run, (seen["state"], seen["reason"]), engine, report)
    tail_bytes = _ATTACH_TAIL_BYTES if seen["did"] == "attached" else -1
    watch = Watch(plan.run, launched.lease.id, launched.box, tail_bytes=tail_bytes)
    second: CaretakerEngine | None = engine
    if seen["did"] != "opened":
        watch.quiet_to_seq = seen["seq"]
    if seen["did"] != "attached":
        _first_line(home, watch, engine, report)
        second = prove_detached(home, launched, report)
    if order.detach:
        if second is not None:
            second.wire.close()
        return RunOutcome(plan.run, launched.lease.id, watch.state.state)
    state, engine = watch.until_end(home.ledger, second, report)
    return _finish(home, plan.run, (state.state, state.reason), engine, report)


def _first_line(home: Home, watch: Watch, engine: CaretakerEngine, report: Report) -> None:
    """Wait on the first connection for the trainer's first sign; then that connection has done its work."""
    try:
        if not watch.until_first_line(home.ledger, engine, report):
            report(Note("silent", "no output from the trainer yet after 60 s; it is alive, so we go on watching"))
    except LinkError as error:
        watch.say_unknown(error, 0, report)
    finally:
        engine.wire.close()


def pull(home: Home, word: str, report: Report, engine: CaretakerEngine | None = None) -> Receipt:
    """Bring a run's results home and verify them; finds a finished pull done. An open wire may be handed in."""
    from leasehold.lifecycle.boxes import box_of
    from leasehold.lifecycle.bring_home import bring_home
    from leasehold.lifecycle.watch import backoff

    record = books.find_run(home.ledger, word)
    box = box_of(home, books.find_lease(home.ledger, record.lease))
    for pause_s in backoff(attempts=8):
        try:
            engine = engine or box.connect()
            return bring_home(home.ledger, record, engine, report)
        except LinkError as error:
            if pause_s is None:
                raise
            report(Note("unknown", f"{error.message}; what came so far is kept; trying again in {pause_s:.0f} s"))
            time.sleep(pause_s)
        finally:
            if engine is not None:
                engine.wire.close()
            engine = None
    raise AssertionError("the last attempt raises")


def watch(home: Home, word: str, report: Report) -> RunOutcome:
    """Follow a run to its end without touching it."""
    from leasehold.lifecycle.boxes import box_of
    from leasehold.lifecycle.watch import Watch

    record = books.find_run(home.ledger, word)
    lease = books.find_lease(home.ledger, record.lease)
    state, engine = Watch(record.run, lease.id, box_of(home, lease)).until_end(home.ledger, None, report)
    engine.wire.close()
    return RunOutcome(record.run, lease.id, state.state)


def status(home: Home, word: str = "", refresh: bool = False) -> list[dict[str, Any]]:
    """List runs as last known; with refresh, as their boxes say now."""
    records = [books.find_run(home.ledger, word)] if word else books.runs(home.ledger)
    if refresh:
        _refresh(home, records)
        records = [books.find_run(home.ledger, word)] if word else books.runs(home.ledger)
    held = {lease.id: lease for lease in books.leases(home.ledger)}
    now = time.time()
    return [_row(record, held[record.lease], now) for record in records]


def show(home: Home, word: str) -> dict[str, Any]:
    """Say everything this home knows of a run."""
    record = books.find_run(home.ledger, word)
    lease = books.find_lease(home.ledger, record.lease)
    events = [
        {"t": event.t, "kind": event.kind, **({} if event.kind == "run_planned" else {"data": event.data})}
        for event in home.ledger.events(run=record.run)
    ]
    return {**_row(record, lease, time.time()), "plan": json.loads(record.plan_json), "events": events}


def logs(home: Home, word: str, cell: str, attempt: int, follow: bool, emit: Callable[[str], None]) -> None:
    """Emit an attempt's log as plain text; the newest attempt unless one is named."""
    from leasehold.kit.terminal import plain
    from leasehold.lifecycle.boxes import box_of

    record = books.find_run(home.ledger, word)
    engine = box_of(home, books.find_lease(home.ledger, record.lease)).connect()
    try:
        seen = engine.look(record.run)
        if cell not in seen["cells"]:
            known = ", ".join(seen["cells"]) or "none yet"
            raise UserError("cell.unknown", f"{record.run} has no cell {cell!r} on the box", hint=f"its cells: {known}")
        number = attempt or int(seen["cells"][cell]["attempt"])
        for chunk in engine.tail(record.run, cell, number, 0, 1e9 if follow else 0):
            emit(plain(chunk.decode("utf-8", "replace")))
    finally:
        engine.wire.close()


def stop(home: Home, word: str, grace_s: float, report: Report) -> dict[str, Any]:
    """End exactly this run's processes and wait until they are gone."""
    from leasehold.lifecycle.boxes import box_of
    from leasehold.lifecycle.watch import Watch

    record = books.find_run(home.ledger, word)
    lease = books.find_lease(home.ledger, record.lease)
    box = box_of(home, lease)
    engine = box.connect()
    try:
        seen = engine.stop(record.run, {"id": secrets.token_hex(6), "by": home.ledger.home_id, "grace_s": grace_s})
    finally:
        engine.wire.close()
    if seen["did"] == "nothing":
        report(Note("nothing", f"{record.run} had already {seen['state']}"))
        home.ledger.append(
            "run_seen",
            lease=lease.id,
            run=record.run,
            state=seen["state"],
            seq=seen["seq"],
            reason=seen["reason"],
        )
        return seen
    watch = Watch(record.run, lease.id, box, quiet_to_seq=seen["seq"], tail_bytes=0)
    state, engine = watch.until_end(home.ledger, None, report)
    engine.wire.close()
    return {"run": record.run, "state": state.state, "did": "stopped"}


def verify(home: Home, word: str) -> dict[str, Any]:
    """Read the home copy again and compare it with its receipt; needs no box."""
    from leasehold.errors import VerifyError
    from leasehold.lifecycle.verify import home_damage

    record = books.find_run(home.ledger, word)
    receipt = books.receipt_of(record)
    if receipt is None:
        raise VerifyError("receipt.none", f"{record.run} has no receipt", hint=f"lease pull {record.run}")
    damage = home_damage(Path(record.home_since), receipt)
    if damage:
        raise VerifyError(
            "receipt.broken",
            f"{record.run}: {damage[0]}",
            hint=f"lease pull {record.run}, while the box is there",
        )
    return {
        "run": record.run,
        "export": record.home_since,
        "receipt": receipt.as_dict(),
        "receipt_sha256": receipt.digest,
    }


def waive(home: Home, word: str, cell: str, report: Report) -> Path:
    """Have a person give up a cell's results, after salvage."""
    from leasehold.lifecycle.approve import terminal_ask
    from leasehold.lifecycle.waive import waive as give_up

    return give_up(home, books.find_run(home.ledger, word), cell, terminal_ask, report)


def down_plan(home: Home, word: str, verb: str = "") -> TeardownPlan:
    """Say what a teardown would do and whether the gate lets it; changes nothing."""
    from leasehold.lifecycle.teardown import plan_teardown

    return plan_teardown(home, _lease(home, word), verb)


@dataclass(frozen=True)
class DownOrder:
    """What `lease down` was asked for, and how the yes is given."""

    word: str
    verb: str = ""
    approve: str = "typed"  # typed, rehearsal, or a signed request's path
    show: Callable[[Any], None] = lambda plan: None


def down(home: Home, order: DownOrder, report: Report) -> str:
    """Pass the gate, get the yes, act; returns the box's end state."""
    from leasehold.lifecycle import approve as ways
    from leasehold.lifecycle.teardown import tear_down
    from leasehold.model.receipt import Approval

    lease = _lease(home, order.word)

    def approve(plan: TeardownPlan) -> Approval:
        order.show(plan)
        if order.approve not in ("typed", "rehearsal"):
            return ways.signed(Path(order.approve), home.signers)
        request = ways.new_request(plan.readings)
        if order.approve == "rehearsal":
            return ways.rehearsed(request)
        return ways.typed(request, f"{plan.verb.name} {lease.id}", ways.terminal_ask)

    return tear_down(home, lease, order.verb, _landlord(lease), approve, report).value


def down_request(home: Home, word: str, verb: str, path: Path) -> dict[str, Any]:
    """Write an approval request for signing, if the gate passes."""
    from leasehold.errors import Refusal
    from leasehold.lifecycle.approve import new_request, write_request

    plan = down_plan(home, word, verb)
    if not plan.verdict.passed:
        seen = "\n".join(finding.what for finding in plan.verdict.against())
        raise Refusal("teardown.refused", "there is nothing to approve yet: the gate refuses", seen=seen)
    request = new_request(plan.readings)
    write_request(request, path)
    return request.as_dict()


def down_stopped(home: Home, word: str, report: Report) -> Lease:
    """Record a person's typed word that the meter is stopped."""
    from leasehold.errors import Refusal
    from leasehold.lifecycle.approve import terminal_ask
    from leasehold.lifecycle.teardown import record_stopped

    lease = _lease(home, word)
    if not lease.open:
        report(Note("already_down", f"{lease.id} is already closed"))
        return lease
    for record in books.runs(home.ledger, lease=lease.id):
        if books.receipt_of(record) is None:
            report(Note("warning", f"{record.run} has no receipt at home: if the box is gone, so are its results"))
    phrase = f"stopped {lease.id}"
    answer = terminal_ask(f"if the console shows that {lease.box} no longer bills, type exactly:  {phrase}\n> ").strip()
    if answer != phrase:
        raise Refusal("stop.not_confirmed", f"{answer!r} is not the phrase; {lease.id} keeps counting")
    record_stopped(home, lease, os.environ.get("USER") or str(os.getuid()))
    return books.find_lease(home.ledger, lease.id)


def leases(home: Home) -> list[Lease]:
    """List the leases whose meter may still run."""
    return books.leases(home.ledger, only_open=True)


def _prepare(home: Home, order: RunOrder, report: Report) -> tuple[Any, tuple[Any, Any]]:
    from leasehold.lifecycle.boxes import find_box
    from leasehold.lifecycle.launch import LaunchOrder
    from leasehold.lifecycle.project import RESULTS, read_tree
    from leasehold.lifecycle.resolve import read_job
    from leasehold.lifecycle.smoke import smoke
    from leasehold.model.money import HourlyPrice
    from leasehold.rehearsal.landlord import furnish

    job = read_job(order.job_file)
    price = str(HourlyPrice.parse(order.price)) if order.price else ""
    box = find_box(home, order.on, root=order.root, rehearse=order.rehearse)
    project = order.job_file.absolute().parent
    tree = read_tree(project)
    smoke(home.ledger, job, tree, report)
    if order.rehearse:
        furnish(Path(box.root))
    results = (order.results or project / RESULTS).absolute()
    return LaunchOrder(box, results, price, order.again, order.alongside), (job, tree)


def _finish(home: Home, run_id: str, ended: tuple[str, str], engine: CaretakerEngine, report: Report) -> RunOutcome:
    state, reason = ended
    if state != "finished":
        engine.wire.close()
        raise RunFailed(
            f"run.{state}",
            f"{run_id} {state}: {reason}",
            hint=f"lease logs {run_id}; the identical lease run resumes it",
        )
    receipt = pull(home, run_id, report, engine)
    record = books.find_run(home.ledger, run_id)
    return RunOutcome(run_id, record.lease, state, record.home_since, receipt)


def _refresh(home: Home, records: list[RunRecord]) -> None:
    """Ask each box's boot line once; a box that does not answer leaves its runs unknown."""
    from leasehold.lifecycle.refresh import refresh

    refresh(home, records)


def _row(record: RunRecord, lease: Lease, now: float) -> dict[str, Any]:
    return {
        "run": record.run,
        "name": record.name,
        "state": record.state,
        "reason": record.reason,
        "box": record.box,
        "lease": record.lease,
        "lease_open": lease.open,
        "age_s": int(now - record.created_unix),
        "seen_s_ago": int(now - record.seen_unix) if record.seen_unix else None,
        "home": record.home_since,
        "receipt": bool(record.receipt_json),
        "waived": list(record.waived),
        "cost": lease.cost(now),
        "price": lease.price,
        "results": record.results,
    }


def _lease(home: Home, word: str) -> Lease:
    """Find a lease by its id, or by a run that lives on it."""
    try:
        return books.find_lease(home.ledger, word)
    except LeaseholdError:
        return books.find_lease(home.ledger, books.find_run(home.ledger, word).lease)


def _landlord(lease: Lease) -> Landlord:
    if lease.platform == "rehearsal":
        from leasehold.rehearsal.landlord import SimulatedLandlord

        return SimulatedLandlord()
    from leasehold.platforms.landlords.person import PersonLandlord

    return PersonLandlord()


def open_home() -> Home:
    """Find this person's home."""
    return Home.find()


def duration(seconds: float) -> str:
    """Say a duration as a person would."""
    from leasehold.model.words import ago

    return ago(seconds)


def clock(unix: float) -> str:
    """Say a moment in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix))
