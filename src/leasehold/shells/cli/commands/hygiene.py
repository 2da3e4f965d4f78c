"""The `lease box gpu` and `lease box disk` commands: call the api, render its answer."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from leasehold.api import hygiene, opening, orders
from leasehold.errors import UserError
from leasehold.model.values.units import parse_duration, parse_size, say_bytes
from leasehold.model.values.wording import one_line
from leasehold.shells.cli import output
from leasehold.shells.cli.output import Screen
from leasehold.shells.cli.screens.disk_table import disk_lines
from leasehold.shells.cli.screens.gpu_table import card_lines, holder_rows

_GPU_EXITS = {"ok": 0, "warn": 0, "fail": 4, "unknown": 0}
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "unknown": "yellow"}


def gpu(args: Namespace) -> int:
    """lease box gpu"""
    home = opening.open_home()
    screen = Screen(args.json)
    if args.kill:
        seen, ended = hygiene.gpu_kill(home, args.box, screen.report)
    else:
        seen, ended = hygiene.gpu(home, args.box, screen.report, args.samples), []
    if args.json:
        output.as_json({**seen.as_dict(), **({"ended": ended} if args.kill else {})})
        return _GPU_EXITS[seen.level.value]
    value = seen.as_dict()
    output.lines(card_lines(value))
    holders = value["holders"]
    if holders:
        output.table(holder_rows(holders), ["PID", "CARD", "AGE", "MEMORY", "WHAT", "WHY"])
    for row in ended:
        output.say(f"pid {row['pid']}: {row['did']}, {one_line(str(row['why']))}")
    if seen.zombies and not args.kill:
        output.say(f"nothing was ended. To end {len(seen.zombies)} zombies: lease box gpu {args.box} --kill")
    output.data(f"{args.box}: {output.paint_data(seen.level.value, _COLOURS[seen.level.value])}")
    return _GPU_EXITS[seen.level.value]


def disk(args: Namespace) -> int:
    """lease box disk"""
    home = opening.open_home()
    if args.undo:
        return _after(args, hygiene.disk_undo(home, args.box, args.undo), "brought back")
    if args.empty_quarantine:
        return _after(args, hygiene.disk_empty(home, args.box, args.empty_quarantine), "deleted")
    order = _order(args)
    wanted = order.free_bytes or order.free_inodes
    if args.delete and not wanted:
        raise UserError(
            "disk.free_what", "--delete needs --free: how much?", hint="lease box disk BOX --free 20GB --delete"
        )
    screen = Screen(args.json)
    if wanted and not args.plan:
        seen, done = hygiene.disk_free(home, order, screen.report)
        return _after(args, done, "deleted" if order.delete else "put aside")
    seen = hygiene.disk(home, order, screen.report)
    if args.json:
        output.as_json(seen.as_dict())
        return 0
    if not wanted:
        output.lines(disk_lines(seen.as_dict(), everything=args.all))
        return 0
    output.lines(hygiene.disk_picked(seen, order).splitlines())
    output.say(f"nothing was touched. To put it aside: leave out --plan; to see all: lease box disk {args.box}")
    return 0


def _order(args: Namespace) -> orders.DiskOrder:
    try:
        free_bytes, limit_s = parse_size(args.free) if args.free else 0, parse_duration(args.limit)
    except ValueError as error:
        raise UserError("disk.bad_amount", str(error), hint="lease box disk BOX --free 20GB --limit 5min") from None
    return orders.DiskOrder(args.box, free_bytes, args.free_inodes, args.tier, limit_s, args.delete)


def _after(args: Namespace, done: dict[str, Any], did: str) -> int:
    failed = [row for row in done["results"] if not row["done"]]
    if args.json:
        output.as_json({"box": args.box, **done})
        return 4 if failed else 0
    for row in done["results"]:
        output.data(f"{did if row['done'] else 'LEFT'}  {one_line(str(row['path']))}")
        if row["problem"]:
            output.say(f"  -> {one_line(str(row['problem']))}")
    if done.get("stamp") and did == "put aside":
        stamp = done["stamp"]
        output.say(f"this freed nothing yet. Undo: lease box disk {args.box} --undo {stamp}")
        output.say(f"free the room: lease box disk {args.box} --empty-quarantine {stamp}")
    elif "free_bytes_gained" in done:
        output.say(f"{say_bytes(int(done['free_bytes_gained']))} more are free now on the disk of our folder")
    return 4 if failed else 0
