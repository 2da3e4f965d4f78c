"""The whole way through the house: launch, watch, bring home, verify."""

from __future__ import annotations

import time
from typing import Any

from leasehold.errors import LinkError, RunFailed
from leasehold.ledger import books
from leasehold.model.lease import RunRecord
from leasehold.model.money import HourlyPrice
from leasehold.model.note import Note, Report
from leasehold.model.receipt import Receipt
from leasehold.platforms.engines.caretaker import CaretakerEngine

from .boxes import box_of, find_box
from .bring_home import bring_home
from .home import Home
from .launch import Launch, LaunchOrder, launch, prove_detached
from .orders import RunOrder, RunOutcome
from .project import RESULTS, read_tree
from .resolve import read_job
from .smoke import smoke
from .watch import Watch, backoff

_ATTACH_TAIL_BYTES = 2000


def run_through(home: Home, order: RunOrder, report: Report) -> RunOutcome:
    """Launch, watch, bring home and verify; the identical call attaches, resumes or finds it done."""
    launch_order, job_tree = _prepare(home, order, report)
    launched, engine = launch(home, launch_order, job_tree, report)
    plan, seen = launched.plan, launched.seen
    if seen["did"] == "attached" and seen["terminal"]:
        return _finish(home, plan.run, (seen["state"], seen["reason"]), engine, report)
    tail_bytes = _ATTACH_TAIL_BYTES if seen["did"] == "attached" else -1
    watch = Watch(plan.run, launched.lease.id, launched.box, tail_bytes=tail_bytes)
    second: CaretakerEngine | None = engine
    if seen["did"] != "opened":
        watch.quiet_to_seq = launched.known_seq  # what happened while this home was away is told
    if seen["did"] != "attached":
        _first_line(home, watch, engine, report)
        second = _second_connection(home, launched, watch, report)
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


def _second_connection(home: Home, launched: Launch, watch: Watch, report: Report) -> CaretakerEngine | None:
    try:
        return prove_detached(home, launched, report)
    except LinkError as error:  # launched for all we know; the watch will find out
        watch.say_unknown(error, 0, report)
        return None


def pull_home(home: Home, record: RunRecord, report: Report, engine: CaretakerEngine | None = None) -> Receipt:
    """Bring a run's results home and verify them; finds a finished pull done. An open wire may be handed in."""
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


def _prepare(home: Home, order: RunOrder, report: Report) -> tuple[Any, tuple[Any, Any]]:
    job = read_job(order.job_file)
    price = str(HourlyPrice.parse(order.price)) if order.price else ""
    box = find_box(home, order.on, root=order.root, rehearse=order.rehearse)
    project = order.job_file.absolute().parent
    tree = read_tree(project, leave_out=order.job_file.name)
    smoke(home.ledger, job, tree, report)
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
    record = books.find_run(home.ledger, run_id)
    receipt = pull_home(home, record, report, engine)
    record = books.find_run(home.ledger, run_id)
    return RunOutcome(run_id, record.lease, state, record.home_since, receipt)
