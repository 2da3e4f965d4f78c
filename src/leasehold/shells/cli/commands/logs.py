"""What lease logs does with the api's answer."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from leasehold import api
from leasehold.shells.cli import output
from leasehold.shells.cli.screens.home_copy_note import CopyScreen


def logs(args: Namespace) -> int:
    """lease logs"""
    if args.patrol:
        return _patrol(args)
    parts: list[str] = []
    emit = parts.append if args.json else lambda text: output.data(text, end="")
    screen = CopyScreen(args.json)
    which = (args.cell, args.attempt)
    verdict = api.logs(api.open_home(), args.run, which, args.follow, emit, screen.report)
    if args.json:
        said = {"run": args.run, "cell": args.cell, "log": "".join(parts), "verdict": verdict}
        output.as_json({**said, **screen.facts})
    elif verdict:
        output.say(verdict)
    return 0


def _patrol(args: Namespace) -> int:
    records: list[dict[str, Any]] = []
    screen = CopyScreen(args.json)
    run = api.patrol(
        api.open_home(),
        args.run,
        args.since,
        args.follow and not args.json,
        lambda line, record: records.append(record) if args.json else output.data(line),
        screen.report,
    )
    if args.json:
        output.as_json({"run": run, "patrol": records, **screen.facts})
    return 0
