"""The stop, waive, harmless, down and park commands: call the api, render its answer."""

from __future__ import annotations

import shlex
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

from leasehold.api import ending, orders, running
from leasehold.errors import BoxError, LinkError
from leasehold.model.values.units import ago
from leasehold.shells.cli import output
from leasehold.shells.cli.output import Screen
from leasehold.shells.cli.patient_home import patient_home
from leasehold.shells.cli.screens.outcome import has_meter, say_evacuated
from leasehold.shells.cli.screens.teardown_screen import show_teardown

# End states of a verb that ended nothing: the box still answers, or it is unknown whether it is off.
_ENDS = {"held": BoxError.exit_code, "unknown": LinkError.exit_code}


def stop(args: Namespace) -> int:
    """lease stop"""
    value = running.stop(patient_home(args), args.run, args.grace, Screen(args.json).report, keep=args.keep)
    if args.json:
        output.as_json(value)
    else:
        if args.keep and "place" in value["kept"]:
            say_evacuated(orders.evacuation_from(value["kept"]))
        bills = "; the box itself still bills (lease down)" if has_meter(args.run) else ""
        output.say(f"its processes are gone{bills}")
    return 0


def waive(args: Namespace) -> int:
    """lease waive"""
    if args.take_back:
        run = ending.take_back_waiver(patient_home(args), args.run, args.cell)
        if args.json:
            output.as_json({"run": run, "cell": args.cell, "taken_back": True})
        else:
            output.say(f"{args.cell} of {run} is owed again. Next: the same lease run resumes it")
        return 0
    if args.failed:
        given_up = ending.waive_failed(patient_home(args), args.run, Screen(args.json).report)
        if args.json:
            output.as_json({"given_up": given_up})
        elif given_up:
            output.say(f"{len(given_up)} given up and recorded; what was salvaged:")
            output.bullets(one["quarantine"] for one in given_up)
        return 0
    place = ending.waive(patient_home(args), args.run, args.cell, Screen(args.json).report)
    if args.json:
        output.as_json({"run": args.run, "cell": args.cell, "quarantine": str(place)})
    else:
        output.say(f"given up and recorded; what was salvaged: {place}")
    return 0


def harmless(args: Namespace) -> int:
    """lease run harmless"""
    facts = ending.harmless(patient_home(args), args.run, args.pid)
    if args.json:
        output.as_json(facts)
    else:
        output.say(f"pid {args.pid} is recorded as harmless until it ends; no other process is covered")
    return 0


def down(args: Namespace) -> int:
    """lease down"""
    home = patient_home(args)
    if not args.lease:
        return _list_open(home, args.json)
    if args.plan:
        plan = ending.down_plan(home, args.lease, args.verb, args.facts_checked)
        output.as_json(plan.as_dict()) if args.json else show_teardown(plan)
        if plan.verdict.passed and not args.json:
            verb = f" --verb {args.verb}" if args.verb else ""
            checked = f" --facts-checked {shlex.quote(args.facts_checked)}" if args.facts_checked else ""
            output.say(f"nothing was done yet. Next: lease down {plan.lease.id}{verb}{checked}")
        return 0 if plan.verdict.passed else 3
    if args.request:
        request = ending.down_request(home, args.lease, args.verb, Path(args.request), args.facts_checked)
        output.as_json({"request": request, "file": args.request})
        output.say(f"sign it within 15 minutes: ssh-keygen -Y sign -n leasehold-approval -f KEY {args.request}")
        return 0
    screen = Screen(args.json)
    if args.stopped:
        lease = ending.down_stopped(home, args.lease, screen.report, args.verb)
        output.as_json({"lease": lease.id, "closed": not lease.open}) if args.json else output.say(
            f"{lease.id} is {'parked: its disks keep counting' if lease.open else 'closed'}"
        )
        return 0
    way = "rehearsal" if args.rehearsal else args.approval or "typed"
    show_plan = (lambda plan: None) if args.json else show_teardown
    order = orders.DownOrder(args.lease, args.verb, way, show_plan, args.facts_checked)
    state = ending.down(home, order, screen.report)
    if args.json:
        output.as_json({"lease": args.lease, "state": state})
    return _ENDS.get(state, 0)


def park(args: Namespace) -> int:
    """lease park"""
    home = patient_home(args)
    if args.revoke:
        held = ending.park_revoke(home, args.lease)
        output.as_json({"revoked": held}) if args.json else output.say(
            "taken back" if held else "there was no standing approval"
        )
        return 0
    if args.standing:
        given = ending.park_standing(home, args.lease, args.standing)
        output.as_json(asdict(given)) if args.json else output.say(
            f"recorded: `{given.verb}` on {given.box} after receipts; take it back: lease park {given.box} --revoke"
        )
        return 0
    if args.plan:
        plan = ending.park_plan(home, args.lease, args.facts_checked)
        output.as_json(plan.as_dict()) if args.json else show_teardown(plan)
        return 0 if plan.verdict.passed else 3
    show_plan = (lambda plan: None) if args.json else show_teardown
    order = orders.DownOrder(args.lease, show=show_plan, facts_checked=args.facts_checked)
    state = ending.park(home, order, Screen(args.json).report)
    if args.json:
        output.as_json({"lease": args.lease, "state": state})
    return _ENDS.get(state, 0)


def _list_open(home: Any, json_wanted: bool) -> int:
    """List the open leases for the person to choose from."""
    rows = running.open_leases(home)
    if json_wanted:
        output.as_json({"leases": rows})
    elif not rows:
        said = running.closed_by_word(home)
        output.say(f"no lease is open{f'; {said}' if said else ': nothing that this home knows of can bill'}")
    else:
        shown = [{**row, "age": ago(row["age_s"]), "cost": row["cost"] or "-"} for row in rows]
        keys = ("lease", "box", "age", "cost", "runs")
        output.table([[row[key] for key in keys] for row in shown], ["LEASE", "BOX", "OPEN FOR", "COST", "RUNS"])
        output.say(f"Which one? See what would happen: lease down {rows[0]['lease']} --plan")
    return 2 if rows else 0
