"""What the front door's commands do with the api's answer."""

from __future__ import annotations

import contextlib
import time
from argparse import Namespace
from pathlib import Path

from leasehold import api
from leasehold.model.run.verdict import Outcome, Verdict
from leasehold.model.values.wording import one_line
from leasehold.shells.cli import output
from leasehold.shells.cli.output import Screen

_EXIT_REFUSED = 3
_SHOWN_LINES = 12
_MARKS = {Outcome.PASSED: "ok ", Outcome.REFUSED: "NO ", Outcome.UNKNOWN: "?  "}


def init(args: Namespace) -> int:
    """lease init"""
    target = Path(args.to)
    if args.source:
        done = api.convert(Path(args.source))
        text, notes = done["text"], [f"carried over: {item}" for item in done["converted"]]
        notes += [f"NOT carried over: {item}" for item in done["not_converted"]]
    else:
        text, notes = api.init(Path.cwd()), []
    if args.stdout:
        output.data(text, end="")
    else:
        api.write_new(target, text)
    left = api.fill_in(text)
    if args.json:
        value = {"file": "" if args.stdout else str(target), "text": text, "notes": notes, "fill_in": left}
        output.as_json(value)
        return 0
    for note in notes:
        output.say(note)
    if not args.stdout:
        output.say(f"wrote {target}. {_say_left(left)}")
    if missed := api.left_home(Path.cwd(), text, target.name):
        output.say(output.paint(missed, "yellow"))
    output.say("Then: lease check smoke, and lease run" if not args.stdout else _say_left(left))
    return 0


def _say_left(lines: list[int]) -> str:
    """Say how many lines wait for the person, and where."""
    if not lines:
        return "Nothing is marked FILL IN; read it all the same."
    shown = ", ".join(map(str, lines[:_SHOWN_LINES])) + (" …" if len(lines) > _SHOWN_LINES else "")
    many = len(lines) > 1
    return f"{len(lines)} line{'s' if many else ''} still say{'' if many else 's'} FILL IN ({shown})."


def check(args: Namespace) -> int:
    """lease check"""
    wishes = {"root": args.root, "deep": args.deep, "kill_check": args.kill_check, "other": args.other}
    verdict = api.check(api.open_home(), args.gate, args.job, args.on, Screen(args.json).report, **wishes)
    if args.json:
        output.as_json(verdict.as_dict())
    else:
        show_verdict(verdict)
    return _EXIT_REFUSED if verdict.outcome is Outcome.REFUSED else 0


def attach(args: Namespace) -> int:
    """lease attach"""
    where = api.BoxWords(args.on, args.root, args.results)
    outcome = api.attach(api.open_home(), args.run, where, Screen(args.json).report, take_over=args.take_over)
    if args.json:
        output.as_json({"run": outcome.run, "state": outcome.state})
    else:
        output.say(f"{outcome.run} {outcome.state}. Its results: lease pull {outcome.run}")
    return 0 if outcome.state == "finished" else 6


def resume(args: Namespace) -> int:
    """lease resume"""
    from .run import show_outcome

    show_outcome(api.resume(api.open_home(), args.run, Screen(args.json).report, detach=args.detach), args.json)
    return 0


def forget(args: Namespace) -> int:
    """lease forget"""
    done = api.forget(api.open_home(), args.run)
    if args.json:
        output.as_json(done)
    else:
        kept = f"; its results stay in {done['home']}" if done["home"] else ""
        output.say(f"{done['run']} is no longer listed{kept}")
    return 0


def tunnel(args: Namespace) -> int:
    """lease tunnel"""

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

    api.tunnel(api.open_home(), args.run, args.port, args.local_port, hold)
    return 0


def handbook(args: Namespace) -> int:
    """lease handbook"""
    found = api.handbook(api.open_home(), args.run)
    if args.json:
        output.as_json(found)
    else:
        output.data(found["text"], end="")
    return 0


def completion(args: Namespace) -> int:
    """lease completion"""
    from leasehold.shells.cli.completion import script
    from leasehold.shells.cli.main import build_parser

    if args.runs:
        output.data(" ".join(row["name"] for row in api.status(api.open_home())))
        return 0
    output.data(script(build_parser(), args.shell), end="")
    return 0


def show_verdict(verdict: Verdict) -> None:
    """Show a gate's every reading, what it means and what to do."""
    colour = {"passed": "green", "refused": "red"}.get(verdict.outcome.value, "yellow")
    for finding in verdict.findings:
        hint = f"\n       -> {one_line(finding.hint)}" if finding.hint and finding.outcome is not Outcome.PASSED else ""
        output.say(f"  {_MARKS[finding.outcome]} {one_line(finding.what)}{hint}")
    output.data(f"{verdict.gate}: {output.paint_data(verdict.outcome.value, colour)}")
