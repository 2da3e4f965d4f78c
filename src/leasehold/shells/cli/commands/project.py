"""The init and check commands: call the api, render its answer."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from leasehold.api import front, opening
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
        done = front.convert(Path(args.source))
        text, notes = done["text"], [f"carried over: {item}" for item in done["converted"]]
        notes += [f"NOT carried over: {item}" for item in done["not_converted"]]
    else:
        text, notes = front.init(Path.cwd()), []
    if args.stdout:
        output.data(text, end="")
    else:
        front.write_new(target, text)
    left = front.fill_in(text)
    if args.json:
        value = {"file": "" if args.stdout else str(target), "text": text, "notes": notes, "fill_in": left}
        output.as_json(value)
        return 0
    for note in notes:
        output.say(note)
    if not args.stdout:
        output.say(f"wrote {target}. {_say_left(left)}")
    if missed := front.left_home(Path.cwd(), text, target.name):
        output.say(output.paint(missed, "yellow"))
    output.say("Then: lease check smoke, and lease run" if not args.stdout else _say_left(left))
    return 0


def _say_left(lines: list[int]) -> str:
    """Count the lines that the person must fill in, with their numbers."""
    if not lines:
        return "Nothing is marked FILL IN; read it anyway."
    shown = ", ".join(map(str, lines[:_SHOWN_LINES])) + (" …" if len(lines) > _SHOWN_LINES else "")
    many = len(lines) > 1
    return f"{len(lines)} line{'s' if many else ''} still say{'' if many else 's'} FILL IN ({shown})."


def check(args: Namespace) -> int:
    """lease check"""
    wishes = {"root": args.root, "deep": args.deep, "kill_check": args.kill_check, "other": args.other}
    verdict = front.check(opening.open_home(), args.gate, args.job, args.on, Screen(args.json).report, **wishes)
    if args.json:
        output.as_json(verdict.as_dict())
    else:
        show_verdict(verdict)
    return _EXIT_REFUSED if verdict.outcome is Outcome.REFUSED else 0


def show_verdict(verdict: Verdict) -> None:
    """Show every check of a gate, its outcome and what to do."""
    colour = {"passed": "green", "refused": "red"}.get(verdict.outcome.value, "yellow")
    for finding in verdict.findings:
        hint = f"\n       -> {one_line(finding.hint)}" if finding.hint and finding.outcome is not Outcome.PASSED else ""
        output.say(f"  {_MARKS[finding.outcome]} {one_line(finding.what)}{hint}")
    output.data(f"{verdict.gate}: {output.paint_data(verdict.outcome.value, colour)}")
