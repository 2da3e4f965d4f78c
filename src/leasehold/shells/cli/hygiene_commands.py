"""What `lease gpu` and `lease disk` do with the api's answer."""

from __future__ import annotations

from argparse import Namespace

from leasehold import api
from leasehold.model.words import one_line

from . import output
from .gpu_drawing import card_lines, holder_rows
from .output import Screen

_GPU_EXITS = {"ok": 0, "warn": 0, "fail": 4, "unknown": 0}
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "unknown": "yellow"}


def gpu(args: Namespace) -> int:
    """lease gpu"""
    home = api.open_home()
    screen = Screen(args.json)
    if args.kill:
        seen, ended = api.gpu_kill(home, args.box, screen.report)
    else:
        seen, ended = api.gpu(home, args.box, screen.report, args.samples), []
    if args.json:
        output.as_json({**seen.as_dict(), **({"ended": ended} if args.kill else {})})
        return _GPU_EXITS[seen.level.value]
    output.lines(card_lines(seen))
    holders = [dict(row) for row in seen.readings.holders]
    if holders:
        output.table(holder_rows(holders), ["PID", "CARD", "AGE", "MEMORY", "WHAT", "WHY"], {"ZOMBIE": "yellow"})
    for row in ended:
        output.say(f"pid {row['pid']}: {row['did']}, {one_line(str(row['why']))}")
    if seen.zombies and not args.kill:
        output.say(f"nothing was ended. To end {len(seen.zombies)} zombies: lease gpu {args.box} --kill")
    output.data(f"{args.box}: {output.paint(seen.level.value, _COLOURS[seen.level.value])}")
    return _GPU_EXITS[seen.level.value]
