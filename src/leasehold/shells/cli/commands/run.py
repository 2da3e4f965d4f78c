"""The run, resume, move, attach, adopt, pull and verify commands: call the api, render its answer."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from leasehold.api import front, opening, orders, running
from leasehold.errors import RunFailed, UserError
from leasehold.model.run.nonfinite import lines
from leasehold.model.values.units import ago, parse_duration
from leasehold.shells.cli import output
from leasehold.shells.cli.output import Screen
from leasehold.shells.cli.patient_home import patient_home
from leasehold.shells.cli.screens.outcome import (
    home_next,
    pulled_json,
    say_evacuated,
    say_home,
    say_states,
    show_out_of_reach,
    show_outcome,
)


def run(args: Namespace) -> int:
    """lease run"""
    order = orders.RunOrder(
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
        rent=_rent_options(args),
    )
    if "," in order.on:
        from .sweep import fleet

        return fleet(order, args.json)
    show_outcome(running.run(opening.open_home(), order, Screen(args.json).report), args.json)
    return 0


def _rent_options(args: Namespace) -> orders.RentOptions:
    wait_s = _duration(args.rent_wait, "--wait") if args.rent_wait else 0.0
    ends_s = _duration(args.ends_after, "--ends-after") if args.ends_after else 0.0
    regions = tuple(args.region)
    return orders.RentOptions(
        wait_s, args.max_price, args.price, args.spot, regions, ends_s, args.rent_request, args.rent_approval
    )


def attach(args: Namespace) -> int:
    """lease attach"""
    where = front.BoxWords(args.on, args.root, args.results)
    outcome = front.attach(patient_home(args), args.run, where, Screen(args.json).report, take_over=args.take_over)
    if args.json:
        output.as_json({"run": outcome.run, "state": outcome.state})
    else:
        output.say(f"{outcome.run} {outcome.state}. Its results: lease pull {outcome.run}")
    return 0 if outcome.state == "finished" else 6


def resume(args: Namespace) -> int:
    """lease resume"""
    outcome = front.resume(opening.open_home(), args.run, Screen(args.json).report, detach=args.detach)
    show_outcome(outcome, args.json)
    return 0


def move(args: Namespace) -> int:
    """lease move"""
    order = orders.MoveOrder(
        word=args.run,
        to=args.to,
        root=args.root,
        platform=args.platform,
        price=args.price,
        grace_s=_duration(args.grace, "--grace"),
        detach=args.detach,
        from_start=args.from_start,
        skip_gates=tuple(args.skip_gate),
        because=args.because,
    )
    if args.rehearse:
        told = front.rehearse(opening.open_home(), order, Screen(args.json).report)
        if args.json:
            output.as_json(told)
        else:
            output.say(f"nothing was changed. Next: lease move {told['run']} --to {told['to']}")
        return 0
    show_outcome(front.move(opening.open_home(), order, Screen(args.json).report), args.json)
    return 0


def adopt(args: Namespace) -> int:
    """lease adopt"""
    home, screen = opening.open_home(), Screen(args.json)
    order = orders.AdoptOrder(
        args.box, args.pid, args.name, args.out, args.log, tuple(args.artifact), args.root, args.results, args.price,
        args.young,
    )  # fmt: skip
    if not args.pid:
        return _list_adoptable(args, front.adoptable(home, order, screen.report))
    run = front.adopt(home, order, screen.report)
    if args.json:
        output.as_json({"run": run})
        return 0
    output.data(run)
    output.say(f"Next: lease watch {run}; when it has ended: lease pull {run}, then lease down {run}")
    return 0


def _list_adoptable(args: Namespace, found: list[dict[str, Any]]) -> int:
    if args.json:
        output.as_json({"candidates": found})
        return 0
    if not found:
        output.say(f"nothing on {args.box} looks like training of yours (--young 0 also lists what has just begun)")
        return 0
    for one in found:
        cards = f", {len(one['gpus'])} card{'' if len(one['gpus']) == 1 else 's'}" if one["gpus"] else ""
        workers = f", {one['workers']} workers" if one["workers"] else ""
        output.data(f"pid {one['pid']}  {ago(one['age_s'])}{cards}{workers}  {one['command']}")
        output.data(f"    in {one['cwd'] or '?'}; log: {one['log'] or 'no file'}; writes to: {one['out'] or '?'}")
    first = found[0]
    out = "" if first["out"] else " --out DIR"
    output.say(f"to watch one and bring it home: lease adopt {args.box} --pid {first['pid']}{out} --artifact PATTERN")
    return 0


def pull(args: Namespace) -> int:
    """lease pull"""
    home = patient_home(args)
    if args.state:
        return _pull_states(home, args)
    if not args.run:
        raise UserError("usage", "which run? lease pull RUN", hint="lease status lists the runs")
    done = running.pull(home, args.run, Screen(args.json).report, args.rate)
    if isinstance(done, orders.OutOfReach):
        return show_out_of_reach(done, args.json)
    row = running.status(home, done.run)[0]
    code = 0 if done.complete else RunFailed.exit_code
    if args.json:
        output.as_json(pulled_json(done, row["home"]))
        return code
    if done.receipt is not None:
        what = home_next(done.run, done.receipt) if row["lease_open"] else say_home(done.receipt)
        output.say(what if row["lease_open"] else f"{what}; its lease is closed")
        output.data(row["home"])
    if done.evacuated is not None:
        say_evacuated(done.evacuated)
        output.data(done.evacuated.place)
    return code


def _pull_states(home: Any, args: Namespace) -> int:
    done = running.pull_states(home, args.run, Screen(args.json).report, args.rate)
    silent = [one for one in done if isinstance(one, orders.OutOfReach)]
    brought = [one for one in done if isinstance(one, orders.StatesBrought)]
    code = RunFailed.exit_code if any(one.lacking for one in brought) else 0
    if args.json:
        value = {"runs": [one.as_dict() for one in brought], "unreachable": [one.as_dict() for one in silent]}
        output.as_json({**value, "receipt": None})
    else:
        for one in brought:
            say_states(one)
        for lost in silent:
            show_out_of_reach(lost, False)
    return silent[0].error.exit_code if silent else code


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


def _duration(text: str, option: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UserError("usage", f"{option}: {error}") from None
