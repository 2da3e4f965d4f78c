"""The watch and logs commands: call the api, render its answer."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from leasehold.api import opening, orders, running, seeing
from leasehold.model.run.note import Note
from leasehold.shells.cli import output
from leasehold.shells.cli.output import Screen
from leasehold.shells.cli.screens.home_copy_note import CopyScreen
from leasehold.shells.cli.screens.patrol_line import patrol_line


def logs(args: Namespace) -> int:
    """lease logs"""
    if args.patrol:
        return _patrol(args)
    parts: list[str] = []
    emit = parts.append if args.json else lambda text: output.data(text, end="")
    screen = CopyScreen(args.json)
    which = (args.cell, args.attempt)
    verdict = running.logs(opening.open_home(), args.run, which, args.follow, emit, screen.report)
    if args.json:
        said = {"run": args.run, "cell": args.cell, "log": "".join(parts), "verdict": verdict}
        output.as_json({**said, **screen.facts})
    elif verdict:
        output.say(verdict)
    return 0


def _patrol(args: Namespace) -> int:
    records: list[dict[str, Any]] = []
    screen = CopyScreen(args.json)
    run = seeing.patrol(
        opening.open_home(),
        args.run,
        args.since,
        args.follow and not args.json,
        lambda record: records.append(record) if args.json else output.data(patrol_line(record)),
        screen.report,
    )
    if args.json:
        output.as_json({"run": run, "patrol": records, **screen.facts})
    return 0


def watch(args: Namespace) -> int:
    """lease watch"""
    from leasehold.shells.cli.screens.live_screen import wants_live

    home = opening.open_home()
    parts = running.named(home, args.run)
    if len(parts) > 1:
        return _watch_sweep(home, parts, args.json)
    if not args.json and wants_live(sys.stderr):
        outcome = watch_live(home, args.run)
    else:
        outcome = running.watch(home, args.run, Screen(args.json).report)
    if args.json:
        output.as_json(
            {"run": outcome.run, "state": outcome.state, "lease": running.meter_of_run(home, outcome.run).as_dict()}
        )
    else:
        output.say(f"{outcome.run} {outcome.state}")
    return 0 if outcome.state == "finished" else 6


def _watch_sweep(home: Any, parts: list[Any], json_wanted: bool) -> int:
    state = running.watch_sweep(home, parts, Screen(json_wanted).report)
    if json_wanted:
        metered = [running.meter_of_run(home, part.run).as_dict() for part in parts]
        output.as_json({"runs": [part.run for part in parts], "state": state, "leases": metered})
    else:
        output.say(f"{len(parts)} runs {state}: {', '.join(part.run for part in parts)}")
    return 0 if state == "finished" else 6


def watch_live(home: Any, word: str) -> orders.RunOutcome:
    """Watch on a screen that redraws itself; Ctrl-C leaves the run running."""
    from leasehold.shells.cli.screens.live_screen import Board, LiveScreen

    record, new_meter = running.meter(home, word)
    Screen.last_run = record.run
    with LiveScreen(Board(record.run, record.box, new_meter)) as screen:

        def report(note: Note) -> None:
            if note.kind == "readings":
                meter, refuge = running.meter_of_run(home, record.run).meter, running.refuge_of_run(home, record.run)
                screen.readings({**note.data, "meter": meter, "refuge": refuge})
            else:
                screen.report(note)

        return running.watch(home, record.run, report, readings=True)
