"""`lease sweep plot`: bars of means on the terminal, or a picture of lines and curves."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from leasehold.api import opening, sweeps
from leasehold.model.job.cells import spell
from leasehold.model.run.sweep import Spread, Standing, SweepPlot
from leasehold.shells.cli import output
from leasehold.shells.cli.term_text import Chunk, display_width, gauge, paint
from leasehold.shells.cli.terminal import Look, look_of_stdout

_BAR = 24


def plot(args: Namespace, found: Standing) -> int:
    """lease sweep plot"""
    picture = sweeps.sweep_plot(opening.open_home(), found, (args.metric or [""])[-1], args.by)
    if args.out:
        from leasehold.shells.cli.charts.sweep_svg import spell_sweep

        output.to_file(args.out, spell_sweep(found.sweep, picture).encode("utf-8"))
    if args.json:
        output.as_json({"sweep": found.sweep, **picture.as_dict()})
    elif not args.out:
        for line in draw_bars(picture, look_of_stdout()):
            output.data(line)
    return 0


def draw_bars(picture: SweepPlot, look: Look) -> Iterator[str]:
    """Draw a bar per setting, from the smallest mean to the largest, with mean ± sd (n) beside it."""
    means = [mean for line in picture.lines.values() for _, mean, _, _ in line]
    low, high = min(means), max(means)
    yield f"{picture.metric} by {picture.axis}: bars from {low:.6g} to {high:.6g}"
    xs = [spell(x) for line in picture.lines.values() for x, *_ in line]
    width = min(max(map(display_width, xs)), look.columns // 3)
    for name, line in picture.lines.items():
        if name:
            yield paint([Chunk(name, "bold")], look.columns, look.glyphs, look.colour)
        for x, mean, sd, n in line:
            bar = gauge((mean - low) / ((high - low) or 1.0), _BAR, look.glyphs)
            text = f"  {spell(x):{width}}  {bar}  {Spread(mean, sd, n)}"
            yield paint([Chunk(text)], look.columns, look.glyphs, look.colour)
    if picture.curves:
        yield f"{len(picture.curves)} cells have their curve at home: -o FILE.svg draws it"
