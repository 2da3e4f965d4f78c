"""The `lease box` commands, ssh, exec and tunnel; ssh and exec pass on the remote command's output and exit code."""

from __future__ import annotations

import contextlib
import time
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from leasehold.api import boxes, opening, orders
from leasehold.errors import UserError
from leasehold.model.run.note import Note
from leasehold.model.run.verdict import Outcome, Verdict
from leasehold.model.values.units import local_second
from leasehold.shells.cli import output
from leasehold.shells.cli.output import Screen

if TYPE_CHECKING:
    from leasehold.model.run.entered import Entered

_EXITS = {Outcome.PASSED: 0, Outcome.REFUSED: 4, Outcome.UNKNOWN: 5}
_SHOWN = (
    "name",
    "address",
    "landlord",
    "holding",
    "identity",
    "platform",
    "price",
    "balance",
    "spot",
    "root",
    "durable",
    "flavour",
    "python",
    "fingerprint",
    "added",
)


def box_add(args: Namespace) -> int:
    """lease box add"""
    if args.pasted and args.ssh:
        raise UserError("box.two_addresses", "an address was given twice", hint="leave out --ssh or the pasted command")
    order = orders.BoxOrder(
        name=args.name,
        pasted=args.pasted or args.ssh,
        platform=args.platform,
        price=args.price,
        root=args.root,
        contact=not args.no_contact,
        replace=args.replace,
        fingerprint=args.fingerprint,
        balance=args.balance,
        spot=args.spot,
        durable=args.durable,
    )
    notes: list[Note] = []
    home = opening.open_home()
    entry = boxes.box_add(home, order, notes.append if args.json else Screen().report)
    if args.json:
        said = [{"kind": note.kind, "text": note.text, "data": note.data} for note in notes]
        output.as_json({"box": entry.as_dict(), "notes": said})
    else:
        known = "in the book" if order.contact else "in the book, not connected yet"
        output.say(f"{entry.name} is {known}. {boxes.box_next(home, entry)}")
        output.data(entry.name)
    return 0


def box_tell(args: Namespace) -> int:
    """lease box tell"""
    from leasehold.shells.cli.screens.meter_lines import lease_lines

    if not (args.balance or args.price or args.disk):
        raise UserError("box.told_nothing", "no --balance, --price or --disk was given", hint="lease box tell --help")
    word = orders.BoxWord(args.name, args.balance, args.price, tuple(args.disk))
    meters = boxes.box_tell(opening.open_home(), word)
    if args.json:
        output.as_json({"box": args.name, "leases": [meter.as_dict() for meter in meters]})
        return 0
    for meter in meters:
        output.lines(lease_lines(meter, time.time(), output.columns()))
    if not meters:
        output.say(f"recorded for {args.name}; no lease is open there now")
    return 0


def box_list(args: Namespace) -> int:
    """lease box list"""
    rows = boxes.box_list(opening.open_home())
    if args.json:
        output.as_json({"boxes": rows})
    elif not rows:
        output.say("no box is saved yet. Add one: lease box add NAME 'ssh -p … root@…'")
    else:
        head = ["NAME", "ADDRESS", "PLATFORM", "PRICE", "FLAVOUR", "OPEN LEASES"]
        output.table([_row(row) for row in rows], head, {"FLAVOUR": {"unknown": "yellow"}})
    return 0


def box_show(args: Namespace) -> int:
    """lease box show"""
    value = boxes.box_show(opening.open_home(), args.name)
    if args.json:
        output.as_json(value)
        return 0
    facts = {
        **value,
        "spot": "yes" if value["spot"] else "",
        "added": local_second(value["added_unix"]),
        "root": value["root"] or "~/.leasehold there",
    }
    for key in _SHOWN:
        if facts[key]:
            output.data(f"{key:12} {facts[key]}")
    found = value["found"]
    runs = [_found(run) for run in found["runs"]] or ([] if found["problem"] else ["none found there"])
    none = "none open" if not found["runs"] else "none open in this home, though runs lie there (see below)"
    more = (
        ("lease", value["leases"] or [none]),
        ("run", [*runs, found["problem"]]),
        ("reboot", [value["reboot"]]),
        ("danger", value["dangers"]),
    )
    for label, lines in more:
        for line in filter(None, lines):
            output.data(f"{label:12} {line}")
    return 0


def box_remove(args: Namespace) -> int:
    """lease box remove"""
    entry = boxes.box_remove(opening.open_home(), args.name, Screen(args.json).report)
    if args.json:
        output.as_json({"removed": entry.as_dict()})
    return 0


def box_prune(args: Namespace) -> int:
    """lease box prune"""
    gone = boxes.box_prune(opening.open_home(), args.name, dry_run=args.dry_run)
    if args.json:
        output.as_json({"box": args.name, **gone})
        return 0
    would = "would remove" if args.dry_run else "removed"
    freed = f", {gone['freed']} {'would be freed' if args.dry_run else 'freed'}"
    data = f", {files} files of uploaded data" if (files := int(gone.get("data_files", 0))) else ""
    output.data(f"{args.name}: {would} {len(gone['trees'])} code trees ({gone['kept']} stay){data}{freed}")
    return 0


def box_reboot(args: Namespace) -> int:
    """lease box reboot"""
    home = opening.open_home()
    done: dict[str, Any]
    if args.allow:
        done = {"allowed": True, "installed": boxes.box_reboot_allow(home, args.name, Screen(args.json).report)}
    elif args.forbid:
        done = {"allowed": False, "removed": boxes.box_reboot_forbid(home, args.name)}
    else:
        done = boxes.box_reboot(home, args.name)
    if args.json:
        output.as_json({"box": args.name, **done})
        return 0
    if args.allow:
        output.say(f"allowed on {args.name}; {len(done['installed'])} live runs got their hook now")
    elif args.forbid:
        output.say(f"forbidden on {args.name}; {len(done['removed'])} hooks were removed")
    else:
        output.data(
            done["said"] or f"nothing is allowed on {args.name}; allow it: lease box reboot {args.name} --allow"
        )
        output.lines(f"{hook['run']}  {hook.get('where') or hook.get('tried')}" for hook in done["hooks"])
    return 0


def box_test(args: Namespace) -> int:
    """lease box test"""
    verdict = boxes.box_test(opening.open_home(), args.name, Screen(args.json).report)
    if args.json:
        output.as_json({"box": args.name, **verdict.as_dict()})
    else:
        output.data(f"{args.name}: {_says(verdict)}")
    return _EXITS[verdict.outcome]


def _found(run: dict[str, Any]) -> str:
    known = f"on {run['lease']}" if run["lease"] else f"not known to this home; {run['attach']}"
    return f"{run['run']} ({run['state']}) in {run['root']}: {known}"


def _row(row: dict[str, Any]) -> list[str]:
    return [row["name"], row["address"], row["platform"], row["price"] or "-", row["flavour"], str(len(row["leases"]))]


def _says(verdict: Verdict) -> str:
    against = len(verdict.against())
    total = len(verdict.findings)
    match verdict.outcome:
        case Outcome.PASSED:
            return f"fit for a run ({total} checks)"
        case Outcome.REFUSED:
            return f"not fit for a run ({against} of {total} checks)"
        case Outcome.UNKNOWN:
            return f"unknown ({against} of {total} checks)"


def ssh(args: Namespace) -> int:
    """lease ssh"""
    return _done(boxes.ssh(opening.open_home(), args.run, args.words, capture=args.json), args.json)


def execute(args: Namespace) -> int:
    """lease exec"""
    return _done(boxes.execute(opening.open_home(), args.run, args.cell, args.words, capture=args.json), args.json)


def _done(ended: Entered, json_wanted: bool) -> int:
    if json_wanted:
        output.as_json({"where": ended.where, "code": ended.code, "stdout": ended.out, "stderr": ended.err})
    return ended.code if ended.code >= 0 else 128 - ended.code


def tunnel(args: Namespace) -> int:
    """lease tunnel"""
    from leasehold.api import front  # the other commands of boxes do not need it

    def hold(port: int, kind: str, detail: str) -> None:
        if args.json:
            output.as_json({"url": f"http://127.0.0.1:{port}/", "panel": kind, "detail": detail})
        else:
            output.data(f"http://127.0.0.1:{port}/")
            output.say(f"{kind}: {detail}")
        if args.once:
            return
        output.say("Ctrl-C closes the tunnel; the run is not touched")
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)
        output.say("\nthe tunnel is closed")

    front.tunnel(opening.open_home(), args.run, args.port, args.local_port, hold)
    return 0
