"""Verbs of runs: start, follow, pull, stop, verify and list them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import BoxError, LinkError, UserError
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.model.lease.lease import Lease, RunRecord

from .front import running_on
from .run_rows import cost_of, rows_of

if TYPE_CHECKING:
    from leasehold.kit.text.progress import ProgressReader
    from leasehold.lifecycle.money.metering import LeaseMeter
    from leasehold.lifecycle.records.orders import PullOutcome, RunOrder, RunOutcome
    from leasehold.lifecycle.states.states_brought import OutOfReach, StatesBrought
    from leasehold.model.run.note import Report
    from leasehold.model.run.refresh_turn import FleetTurn


_OVER = ("finished", "failed", "stopped", "planned", "absent")


def run(home: Home, order: RunOrder, report: Report) -> RunOutcome:
    """Launch, watch, bring home and verify; the identical call attaches, resumes or finds the run done."""
    from leasehold.lifecycle.machine.box import calling_ahead

    if order.rehearse:
        from leasehold.rehearsal.landlord import furnish

        furnish(home.box_root("rehearsal"))
    if not order.on:
        if not order.rehearse and _has_candidates(order.job_file):
            return running_on(home, order, None, report)
        order = replace(order, on="local")
    elif _is_landlord(home, order.on):
        from leasehold.lifecycle.rentals.markets import opener
        from leasehold.lifecycle.run.run_job import run_through

        opener(home)(order.on)  # a missing key is reported before the smoke takes its time

        return run_through(home, order, None, report)
    _settle_platform(home, order, report)
    with calling_ahead(home, order) as box:
        return running_on(home, order, box, report)


def fetch(home: Home, order: RunOrder, report: Report) -> RunOutcome:
    """Fetch a job's downloads on a box and do nothing else."""
    from leasehold.lifecycle.machine.box import find_box
    from leasehold.lifecycle.run.fetch_only import fetch_only

    _settle_platform(home, order, report)
    return fetch_only(home, order, find_box(home, order.on, root=order.root), report)


def _settle_platform(home: Home, order: RunOrder, report: Report) -> None:
    """Determine the platform of an ssh: address before anything is opened there."""
    if order.platform or order.on.startswith("ssh:"):
        from leasehold.lifecycle.box.platform_choice import settle

        settle(home, order.on, order.platform, report)


def _is_landlord(home: Home, word: str) -> bool:
    """Return whether --on names a landlord that rents by API, and no box of that name."""
    from leasehold.ledger import box_book

    if word == "local" or ":" in word or box_book.find(home.ledger, word) is not None:
        return False  # what most words are: no landlord's module is loaded for them
    from leasehold.lifecycle.rentals.markets import is_landlord

    return is_landlord(word)


def _has_candidates(job_file: Path) -> bool:
    from leasehold.lifecycle.project.job_yaml import read_job

    return bool(read_job(job_file).candidates)


def pull(home: Home, word: str, report: Report, limit_rate: str = "") -> PullOutcome | OutOfReach:
    """Bring a run's results home and verify them; of cells without a result, copy what there is, without a receipt."""
    from leasehold.lifecycle.results.pull_until_done import PullOrder, pull_or_evacuate

    order = PullOrder(_rate(limit_rate))
    record = books.find_run(home.ledger, word)
    try:
        return pull_or_evacuate(home, record, report, order)
    except (LinkError, BoxError) as error:
        if isinstance(error, BoxError) and error.code != "run.absent":
            raise
        from leasehold.lifecycle.states.out_of_reach import out_of_reach

        return out_of_reach(home, record, error, report, order.limit_bytes_per_s)


def pull_states(home: Home, word: str, report: Report, limit_rate: str = "") -> list[StatesBrought | OutOfReach]:
    """Bring the newest whole states of a run home; without a name, those of every run that was seen going on."""
    from leasehold.lifecycle.results.pull_until_done import PullOrder
    from leasehold.lifecycle.states.pull_states import pull_states as bring

    order = PullOrder(_rate(limit_rate))
    parts = named(home, word) if word else _going_on(home)
    found: list[StatesBrought | OutOfReach] = []
    for record in parts:
        try:
            found.append(bring(home, record, report, order))
        except LinkError as error:  # the other runs may be on boxes that answer
            from leasehold.lifecycle.states.out_of_reach import out_of_reach

            found.append(out_of_reach(home, record, error, report, order.limit_bytes_per_s))
    return found


def _going_on(home: Home) -> list[RunRecord]:
    held = {lease.id for lease in leases(home)}
    live = [one for one in books.runs(home.ledger) if one.lease in held and one.state not in _OVER]
    return [one for one in live if (json.loads(one.plan_json)["job"].get("checkpoint") or {}).get("path")]


def _rate(text: str) -> float:
    from leasehold.model.values.units import parse_rate

    try:
        return parse_rate(text) if text else 0.0
    except ValueError as error:
        raise UserError("pull.bad_rate", str(error), hint="lease pull NAME --rate 10MB/s") from None


def watch(home: Home, word: str, report: Report, *, readings: bool = False) -> RunOutcome:
    """Follow a run to its end without touching it; with readings, also yield the box's measurements."""
    from leasehold.lifecycle.machine.leased_box import box_of
    from leasehold.lifecycle.records.orders import RunOutcome
    from leasehold.lifecycle.results.home_copy import copy_of, tell_all
    from leasehold.lifecycle.watch.side_duties import Minder
    from leasehold.lifecycle.watch.watch import Watch

    record = books.find_run(home.ledger, word)
    lease = books.find_lease(home.ledger, record.lease)
    if not lease.open and (copy := copy_of(record, f"lease {lease.id} is closed")) is not None:
        return RunOutcome(record.run, lease.id, tell_all(copy, record.run, report))
    minder = Minder(home, record.run)
    following = Watch(record.run, lease.id, box_of(home, lease), wants_readings=readings, minder=minder)
    state = following.until_end(home.ledger, None, report)
    return RunOutcome(record.run, lease.id, state.state)


def named(home: Home, word: str) -> list[RunRecord]:
    """Return the run that a word names, or each part of the sweep over several boxes that it names."""
    from leasehold.lifecycle.sweep.report.find_runs import runs_named

    return runs_named(home, word)


def watch_sweep(home: Home, parts: list[RunRecord], report: Report) -> str:
    """Follow every part of a sweep to its end, in parallel; return the worst state."""
    from leasehold.lifecycle.sweep.report.watch_parts import watch_parts

    return watch_parts(home, parts, report)


def meter(home: Home, word: str) -> tuple[RunRecord, Callable[[], ProgressReader]]:
    """Return a run's record and a maker of readers for its progress, by the job's own pattern."""
    from leasehold.kit.text.progress import ProgressReader

    record = books.find_run(home.ledger, word)
    pattern = str(json.loads(record.plan_json)["job"].get("progress", "auto"))
    return record, lambda: ProgressReader(pattern)


def status(home: Home, word: str = "") -> list[dict[str, Any]]:
    """List runs as last known."""
    return rows_of(home, [books.find_run(home.ledger, word).line()] if word else books.run_lines(home.ledger))


def refresh(
    home: Home, word: str = "", patience_s: float = 0.0
) -> Generator[tuple[list[dict[str, Any]], FleetTurn], None, None]:
    """Ask the boxes now; yield each box's rows as it answers, and the fleet's state. Runs of no box come first."""
    from leasehold.lifecycle.box import refresh as stage
    from leasehold.model.run.refresh_turn import FleetTurn

    records = [books.find_run(home.ledger, word)] if word else books.runs(home.ledger)
    held = {lease.id for lease in stage.leases_to_ask(home)}
    yield rows_of(home, [record.line() for record in records if record.lease not in held]), FleetTurn(0, 0, {})
    for turn in stage.refresh(home, records, patience_s or stage.PATIENCE_S):
        told = [books.find_run(home.ledger, record.run).line() for record in records if record.run in turn.runs]
        yield rows_of(home, told), turn


def show(home: Home, word: str) -> dict[str, Any]:
    """Return everything that this home knows of a run."""
    from leasehold.model.run.nonfinite import lines

    record = books.find_run(home.ledger, word)
    events = _smoked(home, record)
    events += [
        {"t": event.t, "kind": event.kind, **({} if event.kind == "run_planned" else {"data": event.data})}
        for event in home.ledger.events(run=record.run)
    ]
    row = rows_of(home, [record.line()])[0]
    held = {"nonfinite": lines(record.nonfinite())}
    return {**row, **held, "plan": json.loads(record.plan_json), "events": events}


def _smoked(home: Home, record: RunRecord) -> list[dict[str, Any]]:
    """Record that the smoke of this run's job and code passed; it comes before there is a run to note it for."""
    from leasehold.lifecycle.smoke.passes import passes
    from leasehold.model.run.plan import plan_from_dict

    plan = plan_from_dict(json.loads(record.plan_json))
    known = passes(home.ledger, plan.job, plan.code or plan.tree)
    passed = [event.t for event in known if event.t <= record.created_unix]
    judged = {"gate": "smoke", "outcome": "passed"}
    return [{"t": at, "kind": "gate_judged", "data": judged} for at in passed[-1:] if plan.job.smoke]


def logs(
    home: Home, word: str, which: tuple[str, int], follow: bool, emit: Callable[[str], None], report: Report
) -> str:
    """Emit the log of a cell's attempt (0: the newest) as plain text; return why it failed, if that is known.

    If the box is gone, the home copy is read instead, and that is reported first.
    """
    from leasehold.kit.events.failure_events import say_cell
    from leasehold.lifecycle.results.home_copy import seen_from, tell_copy
    from leasehold.lifecycle.smoke.log_lines import LogLines
    from leasehold.lifecycle.sweep.report.find_runs import one_with_cell

    cell, attempt = which
    record = one_with_cell(home, named(home, word), cell)
    engine = seen_from(home, record)
    tell_copy(engine, report)
    with engine:
        seen = engine.observe.look(record.run)
        if cell not in seen["cells"]:
            known = ", ".join(seen["cells"]) or "none yet"
            raise UserError("cell.unknown", f"{record.run} has no cell {cell!r}", hint=f"its cells: {known}")
        number = attempt or int(seen["cells"][cell]["attempt"])
        lines = LogLines()
        for chunk in engine.observe.tail(record.run, cell, number, 0, 1e9 if follow else 0):
            emit(lines.add(chunk))
        emit(lines.rest())
        return say_cell(engine.observe.look(record.run)["cells"].get(cell, {}), number)


def stop(home: Home, word: str, grace_s: float, report: Report, *, keep: bool = False) -> dict[str, Any]:
    """Stop exactly this run's processes and wait until they are gone; with keep, bring home what is there then."""
    ended = _stop(home, word, grace_s, report)
    if not keep:
        return ended
    from leasehold.lifecycle.states.states_brought import OutOfReach

    done = pull(home, str(ended["run"]), report)
    if isinstance(done, OutOfReach):
        raise done.error
    receipt = {"receipt": done.receipt.as_dict()} if done.receipt else {}
    return {**ended, **receipt, "kept": done.evacuated.as_dict() if done.evacuated else receipt["receipt"]}


def _stop(home: Home, word: str, grace_s: float, report: Report) -> dict[str, Any]:
    from leasehold.lifecycle.run.stop import stop_run

    return dict(stop_run(home, books.find_run(home.ledger, word), grace_s, report))


def verify(home: Home, word: str) -> dict[str, Any]:
    """Read the home copy again and compare it with its receipt (of a sweep, every part's); needs no box."""
    parts = named(home, word)
    if len(parts) > 1:
        from leasehold.lifecycle.sweep.report.verify_parts import verify_parts

        return verify_parts(parts, [_verified(home, part) for part in parts if part.receipt_json])
    return _verified(home, parts[0])


def _verified(home: Home, record: RunRecord) -> dict[str, Any]:
    from leasehold.errors import VerifyError
    from leasehold.lifecycle.results.verify import home_damage

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


def leases(home: Home) -> list[Lease]:
    """List the leases whose meter may still run."""
    return books.leases(home.ledger, only_open=True)


def closed_by_word(home: Home) -> str:
    """Return the leases that only a person's statement closed."""
    from leasehold.lifecycle.machine.heard_again import say_closed_by_word

    return say_closed_by_word(home)


def meters(home: Home) -> list[LeaseMeter]:
    """Read the meter of every open lease that bills or may bill; contacts no box."""
    if not any(lease.box != "local" or lease.price for lease in books.leases(home.ledger, only_open=True)):
        return []  # nothing bills: `lease status` need not even import the meter
    from leasehold.lifecycle.money.metering import open_meters

    return open_meters(home, time.time())


def refuge_of_run(home: Home, word: str) -> dict[str, Any]:
    """Read what has left a run's box, and what would be lost with it."""
    import json

    from .run_rows import refuge_of

    record = books.find_run(home.ledger, word)
    work = json.loads(record.work_json) if record.work_json else {}
    return refuge_of(work, record.state, books.find_lease(home.ledger, record.lease).price, time.time())


def meter_of_run(home: Home, word: str) -> LeaseMeter:
    """Read the meter of the lease that a run is on."""
    from leasehold.lifecycle.money.metering import meter_of

    lease = books.find_lease(home.ledger, books.find_run(home.ledger, word).lease)
    return meter_of(home, lease, time.time())


def open_leases(home: Home) -> list[dict[str, Any]]:
    """Return each open lease: its box, its duration, its cost, and the state of its runs."""
    now = time.time()
    rows = []
    for lease in leases(home):
        held = books.runs(home.ledger, lease=lease.id)
        runs = ", ".join(f"{record.name} {record.state}" for record in held[:3]) + (" …" if len(held) > 3 else "")
        facts = {"lease": lease.id, "box": lease.box, "price": lease.price, "cost": cost_of(home, lease, now)[0]}
        rows.append({**facts, "age_s": int(now - lease.opened_unix), "runs": runs or "none"})
    return rows
