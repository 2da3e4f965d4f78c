"""What `lease adopt` does with the api's answer."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from leasehold import api
from leasehold.shells.cli import output
from leasehold.shells.cli.output import Screen


def adopt(args: Namespace) -> int:
    """lease adopt"""
    home, screen = api.open_home(), Screen(args.json)
    order = api.AdoptOrder(
        args.box, args.pid, args.name, args.out, args.log, tuple(args.artifact), args.root, args.results, args.price,
        args.young,
    )  # fmt: skip
    if not args.pid:
        return _list(args, api.adoptable(home, order, screen.report))
    run = api.adopt(home, order, screen.report)
    if args.json:
        output.as_json({"run": run})
        return 0
    output.data(run)
    output.say(f"Next: lease watch {run}; when it has ended: lease pull {run}, then lease down {run}")
    return 0


def _list(args: Namespace, found: list[dict[str, Any]]) -> int:
    if args.json:
        output.as_json({"candidates": found})
        return 0
    if not found:
        output.say(f"nothing on {args.box} looks like training of yours (--young 0 also lists what has just begun)")
        return 0
    for one in found:
        cards = f", {len(one['gpus'])} card{'' if len(one['gpus']) == 1 else 's'}" if one["gpus"] else ""
        workers = f", {one['workers']} workers" if one["workers"] else ""
        output.data(f"pid {one['pid']}  {api.duration(one['age_s'])}{cards}{workers}  {one['command']}")
        output.data(f"    in {one['cwd'] or '?'}; log: {one['log'] or 'no file'}; writes to: {one['out'] or '?'}")
    first = found[0]
    out = "" if first["out"] else " --out DIR"
    output.say(f"to watch one and bring it home: lease adopt {args.box} --pid {first['pid']}{out} --artifact PATTERN")
    return 0
