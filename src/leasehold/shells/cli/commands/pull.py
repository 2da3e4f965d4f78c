"""What pull and verify do with the api's answer."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from leasehold.api import opening, orders, running
from leasehold.model.run.nonfinite import lines
from leasehold.shells.cli import output
from leasehold.shells.cli.output import Screen
from leasehold.shells.cli.screens.outcome import home_next, say_evacuated, say_home


def pull(args: Namespace) -> int:
    """lease pull"""
    home = opening.open_home()
    done = running.pull(home, args.run, Screen(args.json).report, args.limit_rate)
    if isinstance(done, orders.Evacuation):
        if args.json:
            output.as_json({"run": done.run, "evacuated": done.as_dict(), "receipt": None})
            return 0
        output.say(say_evacuated(done))
        output.data(done.place)
        return 0
    row = running.status(home, done.run)[0]
    export = row["home"]
    if args.json:
        output.as_json({"run": done.run, "export": export, "receipt": done.as_dict()})
        return 0
    closed = f"{say_home(done)}; its lease is closed"
    output.say(home_next(done.run, done) if row["lease_open"] else closed)
    output.data(export)
    return 0


def verify(args: Namespace) -> int:
    """lease verify"""
    value = running.verify(opening.open_home(), args.run)
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
