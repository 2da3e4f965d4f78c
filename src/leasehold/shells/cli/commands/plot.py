"""The plot command: draw the api's curves on the terminal, or write them to files."""

from __future__ import annotations

import csv
import io
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from leasehold.api import opening, seeing
from leasehold.errors import UserError
from leasehold.model.run.curve import Curve
from leasehold.shells.cli import output
from leasehold.shells.cli.charts.braille import draw
from leasehold.shells.cli.screens.home_copy_note import CopyScreen
from leasehold.shells.cli.terminal import Look, look_of_stdout

_FRAME_ROWS = 4  # title, axis, clock and the empty line of a panel


def plot(args: Namespace) -> int:
    """lease plot"""
    wanted = [word.strip() for word in args.what.split(",") if word.strip()]
    screen = CopyScreen(args.json)
    run, curves, now_unix = seeing.plot(opening.open_home(), args.run, wanted, args.since, screen.report)
    missing = [what for what in wanted if all(curve.panel != what for curve in curves)]
    if missing and not args.json:
        output.say(f"nothing was measured for {', '.join(missing)}")
    if args.csv:
        _write(args.csv, spell_csv(curves))
    if args.svg:
        from leasehold.shells.cli.charts.curves_svg import spell_svg

        _write(args.svg, spell_svg(run, curves))
    if args.json:
        drawn = [curve.as_dict() for curve in curves]
        output.as_json({"run": run, "now_unix": now_unix, "curves": drawn, "missing": missing, **screen.facts})
    elif not (args.csv or args.svg):
        for line in draw(curves, _look(len({curve.panel for curve in curves}))):
            output.data(line)
    return 0


def spell_csv(curves: Sequence[Curve]) -> str:
    """Format a row per moment and a column per curve."""
    names = [f"{curve.panel}/{curve.name}" if curve.name != curve.panel else curve.panel for curve in curves]
    heads = [f"{name} [{curve.unit}]" if curve.unit else name for name, curve in zip(names, curves, strict=True)]
    columns = [dict(curve.points) for curve in curves]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["unix", "time", *heads])
    for at in sorted({at for column in columns for at in column}):
        clock = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(at))
        values = [column.get(at) for column in columns]
        table.writerow([f"{at:.1f}", clock, *("" if value is None else f"{value:.6g}" for value in values)])
    return text.getvalue()


def _look(panels: int) -> Look:
    look = look_of_stdout(rows=40)
    return look._replace(rows=look.rows // max(1, panels) - _FRAME_ROWS)


def _write(place: str, text: str) -> None:
    if place == "-":
        output.data(text, end="")
        return
    try:
        Path(place).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError("plot.unwritable", f"{place}: {error.strerror or error}", hint="name another file") from None
    output.say(f"wrote {place}")
