"""What each command does with the api's answer."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold import api
from leasehold.errors import BoxError, LinkError, UserError
from leasehold.model.run.nonfinite import lines, summary
from leasehold.model.run.note import Note
from leasehold.model.run.unread_files import summary as summary_unread
from leasehold.model.run.unread_files import unread
from leasehold.model.values.units import parse_duration
from leasehold.shells.cli import output
from leasehold.shells.cli.output import Screen
from leasehold.shells.cli.screens.teardown_screen import show_teardown

if TYPE_CHECKING:
    from leasehold.model.run.receipt import Receipt

_HOME_NEXT = "{what}. Next, when you need the box no more: lease down {run}"


def run(args: Namespace) -> int:
    """lease run"""
    order = api.RunOrder(
        job_file=Path(args.job),
        on=args.on,
        root=args.root,
        platform=args.platform,
        rehearse=args.rehearse,
        price=args.price,
        balance=args.balance,
        spot=args.spot,
        results=Path(args.results) if args.results else None,
        detach=args.detach,
        again=args.again,
        alongside=args.alongside,
        skip_gates=tuple(args.skip_gate),
        because=args.because,
        take_over=args.take_over,
        at_risk_s=_duration(args.bring_after, "--bring-after"),
        patience_s=_duration(args.move_after, "--move-after") if "," in args.on else 0.0,
    )
    if "," in order.on:
        from .sweep import fleet

        return fleet(order, args.json)
    show_outcome(api.run(api.open_home(), order, Screen(args.json).report), args.json)
    return 0


def show_outcome(outcome: api.RunOutcome, json_wanted: bool) -> None:
    """Say how far a run came, and what to type next."""
    if json_wanted:
        receipt = outcome.receipt.as_dict() if outcome.receipt else None
        output.as_json({**vars(outcome), "receipt": receipt})
    elif outcome.receipt is None:
        output.say(f"detached; the run continues on the box. Next: lease watch {outcome.run}")
        output.data(outcome.run)
    else:
        output.say(_home_next(outcome.run, outcome.receipt))
        output.data(outcome.export)


def _home_next(run: str, receipt: Receipt) -> str:
    """Say what is left to do: nothing where holding the box costs nothing."""
    what = _home(receipt)
    return _HOME_NEXT.format(what=what, run=run) if _has_meter(run) else what


def _home(receipt: Receipt) -> str:
    """Say how results came home; such as hold NaN or infinity, or were not read, are never called verified alone."""
    held, passed_over = summary(receipt.nonfinite), summary_unread(unread(receipt.loads))
    if held:
        return f"home, hash-equal, loads, but holds {held}{passed_over and '; '}{passed_over}: look before you use it"
    return f"results are home and hash-equal; {passed_over}" if passed_over else "results are home and verified"


def _has_meter(run: str) -> bool:
    return api.meter_of_run(api.open_home(), run).metered


def _duration(text: str, option: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UserError("usage", f"{option}: {error}") from None


def watch(args: Namespace) -> int:
    """lease watch"""
    from leasehold.shells.cli.screens.live_screen import wants_live

    home = api.open_home()
    parts = api.named(home, args.run)
    if len(parts) > 1:
        return _watch_sweep(home, parts, args.json)
    if not args.json and wants_live(sys.stderr):
        outcome = watch_live(home, args.run)
    else:
        outcome = api.watch(home, args.run, Screen(args.json).report)
    if args.json:
        output.as_json(
            {"run": outcome.run, "state": outcome.state, "lease": api.meter_of_run(home, outcome.run).as_dict()}
        )
    else:
        output.say(f"{outcome.run} {outcome.state}")
    return 0 if outcome.state == "finished" else 6


def _watch_sweep(home: Any, parts: list[Any], json_wanted: bool) -> int:
    state = api.watch_sweep(home, parts, Screen(json_wanted).report)
    if json_wanted:
        metered = [api.meter_of_run(home, part.run).as_dict() for part in parts]
        output.as_json({"runs": [part.run for part in parts], "state": state, "leases": metered})
    else:
        output.say(f"{len(parts)} runs {state}: {', '.join(part.run for part in parts)}")
    return 0 if state == "finished" else 6


def watch_live(home: Any, word: str) -> api.RunOutcome:
    """Watch on a screen that redraws itself; Ctrl-C leaves the run running."""
    from leasehold.shells.cli.screens.live_screen import Board, LiveScreen

    record, new_meter = api.meter(home, word)
    Screen.last_run = record.run
    with LiveScreen(Board(record.run, record.box, new_meter)) as screen:

        def report(note: Note) -> None:
            if note.kind == "readings":
                screen.readings({**note.data, "meter": api.meter_of_run(home, record.run).meter})
            else:
                screen.report(note)

        return api.watch(home, record.run, report, readings=True)


def pull(args: Namespace) -> int:
    """lease pull"""
    home = api.open_home()
    done = api.pull(home, args.run, Screen(args.json).report, args.limit_rate)
    if isinstance(done, api.Evacuation):
        if args.json:
            output.as_json({"run": done.run, "evacuated": done.as_dict(), "receipt": None})
            return 0
        output.say(_say_evacuated(done))
        output.data(done.place)
        return 0
    row = api.status(home, done.run)[0]
    export = row["home"]
    if args.json:
        output.as_json({"run": done.run, "export": export, "receipt": done.as_dict()})
        return 0
    closed = f"{_home(done)}; its lease is closed"
    output.say(_home_next(done.run, done) if row["lease_open"] else closed)
    output.data(export)
    return 0


def _say_evacuated(done: api.Evacuation) -> str:
    """Say what a copy without a receipt is worth."""
    if done.state in ("stopped", "failed"):
        what = (
            f"{done.run} {done.state}: this is what it left, hash-equal to the box, unfinished, not loaded: no receipt"
        )
        return f"{what}. lease resume {done.run} goes on with it; lease waive {done.run} gives it up"
    return f"{done.run} goes on; this is a copy of what it has finished, not its result: no receipt"


def verify(args: Namespace) -> int:
    """lease verify"""
    value = api.verify(api.open_home(), args.run)
    if args.json:
        output.as_json(value)
        return 0
    if "parts" in value:
        _say_parts(value)
        return 0
    receipt = value["receipt"]
    output.data(
        f"{value['run']}: {receipt['files']} files, {receipt['bytes']} bytes, equal to the receipt in {value['export']}"
    )
    for line in lines(receipt.get("nonfinite", ())):
        output.say(f"not finite: {line}")
    return 0


def _say_parts(value: dict[str, Any]) -> None:
    given_up = f", {len(value['waived'])} given up" if value["waived"] else ""
    count = f"{value['cells']} of {value['promised']} cells are home{given_up}"
    output.data(f"{value['sweep']}: {count}; {value['files']} files, {value['bytes']} bytes, equal to their receipts")
    for part in value["parts"]:
        receipt = part["receipt"]
        output.data(f"  {part['run']}: {receipt['files']} files, {receipt['bytes']} bytes in {part['export']}")
        for line in lines(receipt.get("nonfinite", ())):
            output.say(f"not finite: {line}")


def stop(args: Namespace) -> int:
    """lease stop"""
    value = api.stop(api.open_home(), args.run, args.grace, Screen(args.json).report, keep=args.keep)
    if args.json:
        output.as_json(value)
    else:
        if args.keep and "place" in value["kept"]:
            output.say(_say_evacuated(api.Evacuation(**value["kept"])))
        bills = "; the box itself still bills (lease down)" if _has_meter(args.run) else ""
        output.say(f"its processes are gone{bills}")
    return 0


def waive(args: Namespace) -> int:
    """lease waive"""
    if args.take_back:
        run = api.take_back_waiver(api.open_home(), args.run, args.cell)
        if args.json:
            output.as_json({"run": run, "cell": args.cell, "taken_back": True})
        else:
            output.say(f"{args.cell} of {run} is owed again. Next: the same lease run resumes it")
        return 0
    if args.failed:
        given_up = api.waive_failed(api.open_home(), args.run, Screen(args.json).report)
        if args.json:
            output.as_json({"given_up": given_up})
        elif given_up:
            output.say(f"{len(given_up)} given up and recorded; what was salvaged:")
            output.bullets(one["quarantine"] for one in given_up)
        return 0
    place = api.waive(api.open_home(), args.run, args.cell, Screen(args.json).report)
    if args.json:
        output.as_json({"run": args.run, "cell": args.cell, "quarantine": str(place)})
    else:
        output.say(f"given up and recorded; what was salvaged: {place}")
    return 0


def harmless(args: Namespace) -> int:
    """lease harmless"""
    facts = api.harmless(api.open_home(), args.run, args.pid)
    if args.json:
        output.as_json(facts)
    else:
        output.say(f"pid {args.pid} is recorded as harmless until it ends; no other process is covered")
    return 0


# How a verb may end without having ended anything: the box answers still, or nobody knows whether it is off.
_ENDS = {"held": BoxError.exit_code, "unknown": LinkError.exit_code}


def down(args: Namespace) -> int:
    """lease down"""
    home = api.open_home()
    if not args.lease:
        return _list_open(home, args.json)
    if args.plan:
        plan = api.down_plan(home, args.lease, args.verb, args.facts_checked)
        output.as_json(plan.as_dict()) if args.json else show_teardown(plan)
        if plan.verdict.passed and not args.json:
            verb = f" --verb {args.verb}" if args.verb else ""
            checked = f" --facts-checked {shlex.quote(args.facts_checked)}" if args.facts_checked else ""
            output.say(f"nothing was done yet. Next: lease down {plan.lease.id}{verb}{checked}")
        return 0 if plan.verdict.passed else 3
    if args.request:
        request = api.down_request(home, args.lease, args.verb, Path(args.request), args.facts_checked)
        output.as_json({"request": request, "file": args.request})
        output.say(f"sign it within 15 minutes: ssh-keygen -Y sign -n leasehold-approval -f KEY {args.request}")
        return 0
    screen = Screen(args.json)
    if args.stopped:
        lease = api.down_stopped(home, args.lease, screen.report, args.verb)
        output.as_json({"lease": lease.id, "closed": not lease.open}) if args.json else output.say(
            f"{lease.id} is {'parked: its disks keep counting' if lease.open else 'closed'}"
        )
        return 0
    way = "rehearsal" if args.rehearsal else args.approval or "typed"
    show_plan = (lambda plan: None) if args.json else show_teardown
    order = api.DownOrder(args.lease, args.verb, way, show_plan, args.facts_checked)
    state = api.down(home, order, screen.report)
    if args.json:
        output.as_json({"lease": args.lease, "state": state})
    return _ENDS.get(state, 0)


def park(args: Namespace) -> int:
    """lease park"""
    home = api.open_home()
    if args.revoke:
        held = api.park_revoke(home, args.lease)
        output.as_json({"revoked": held}) if args.json else output.say(
            "taken back" if held else "there was no standing approval"
        )
        return 0
    if args.standing:
        given = api.park_standing(home, args.lease, args.standing)
        output.as_json(asdict(given)) if args.json else output.say(
            f"recorded: `{given.verb}` on {given.box} after receipts; take it back: lease park {given.box} --revoke"
        )
        return 0
    if args.plan:
        plan = api.park_plan(home, args.lease, args.facts_checked)
        output.as_json(plan.as_dict()) if args.json else show_teardown(plan)
        return 0 if plan.verdict.passed else 3
    show_plan = (lambda plan: None) if args.json else show_teardown
    order = api.DownOrder(args.lease, show=show_plan, facts_checked=args.facts_checked)
    state = api.park(home, order, Screen(args.json).report)
    if args.json:
        output.as_json({"lease": args.lease, "state": state})
    return _ENDS.get(state, 0)


def _list_open(home: Any, json_wanted: bool) -> int:
    """Say what there is to take down; which one is the person's choice."""
    rows = api.open_leases(home)
    if json_wanted:
        output.as_json({"leases": rows})
    elif not rows:
        said = api.closed_by_word(home)
        output.say(f"no lease is open{f'; {said}' if said else ': nothing that this home knows of can bill'}")
    else:
        shown = [{**row, "age": api.duration(row["age_s"]), "cost": row["cost"] or "-"} for row in rows]
        keys = ("lease", "box", "age", "cost", "runs")
        output.table([[row[key] for key in keys] for row in shown], ["LEASE", "BOX", "OPEN FOR", "COST", "RUNS"])
        output.say(f"Which one? See what would happen: lease down {rows[0]['lease']} --plan")
    return 2 if rows else 0
