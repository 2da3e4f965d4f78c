"""A sweep as an SVG picture: a metric against one parameter with its spread over seeds, and the curves of its cells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from leasehold.model.job.cells import Scalar, spell
from leasehold.model.run.sweep import SweepPlot
from leasehold.shells.cli.term_text import figure

from .braille import Span
from .svg import LEFT, WIDE, Frame, colour_of, legend_mark, page, path, text, ticks

_HIGH, _TOP, _GAP, _LINE = 260, 48, 62, 18
_LEGEND_MOST, _COURSES_NAMED, _NAME_CHARS = 24, 12, 70
_LOG_FROM = 100.0  # ratio of the largest to the smallest value from which an axis is logarithmic


@dataclass(frozen=True)
class _Axis:
    """Positions on the bottom axis: linear, logarithmic, or one slot for each value."""

    spots: Mapping[str, float]
    note: str = ""

    @classmethod
    def of(cls, values: Sequence[Scalar]) -> _Axis:
        """Choose the layout of the values."""
        numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        distinct = list(dict.fromkeys(values))
        if len(numbers) < len(values) or len(set(numbers)) < 2:
            step = 1.0 / max(1, len(distinct))
            return cls({spell(value): step * (place + 0.5) for place, value in enumerate(distinct)})
        powers = min(numbers) > 0 and max(numbers) / min(numbers) >= _LOG_FROM
        sizes = {value: math.log10(float(value)) if powers else float(value) for value in distinct}
        span = Span(min(sizes.values()), max(sizes.values()))
        spots = {spell(value): 0.04 + 0.92 * span.share(size) for value, size in sizes.items()}
        return cls(spots, " (log scale)" if powers else "")


def spell_sweep(sweep: str, picture: SweepPlot) -> str:
    """Format the whole file."""
    parts = list(_by_axis(picture))
    height = _TOP + _HIGH + _GAP + _LINE * min(_LEGEND_MOST, len(picture.lines))
    if picture.curves:
        parts += _courses(picture, height + 12)
        height += _HIGH + _GAP + (0 if len(picture.lines) > 1 else _LINE * min(_COURSES_NAMED, len(picture.curves)))
    head = f"{sweep}: {picture.metric} by {picture.axis}"
    return page(head, height, parts)


def _by_axis(picture: SweepPlot) -> Iterator[str]:
    axis = _Axis.of([x for line in picture.lines.values() for x, *_ in line])
    spread = [value for line in picture.lines.values() for _, mean, sd, _ in line for value in _ends(mean, sd)]
    panel = Frame(_TOP, _HIGH, _widened(spread))
    yield from panel.grid(5)
    below = _TOP + _HIGH
    for name, spot in axis.spots.items():
        yield f'<text x="{panel.x(spot):.1f}" y="{below + 16}" text-anchor="middle">{text(name)}</text>'
    title = f"{picture.axis}{axis.note}; mean, bars are ± sd over seeds, n beside"
    yield f'<text class="s" x="{WIDE / 2:.0f}" y="{below + 32}" text-anchor="middle">{text(title)}</text>'
    for place, (name, line) in enumerate(picture.lines.items()):
        colour = colour_of(place)
        shift = (place - (len(picture.lines) - 1) / 2) * min(6.0, 60.0 / len(picture.lines))
        points = sorted((panel.x(axis.spots[spell(x)]) + shift, mean, sd, n) for x, mean, sd, n in line)
        yield _path([(x, panel.y(mean)) for x, mean, _, _ in points], colour)
        for x, mean, sd, n in points:
            yield from _spot(panel, (x, mean, sd, n), colour)
        if place < _LEGEND_MOST and name:
            yield from _named(name, colour, below + 52 + _LINE * place)


def _courses(picture: SweepPlot, top: int) -> Iterator[str]:
    panel = Frame(top + 16, _HIGH, _widened([value for _, points in picture.curves.values() for _, value in points]))
    steps = [step for _, points in picture.curves.values() for step, _ in points]
    span = Span(min(steps), max(steps))
    joined = len(picture.lines) > 1  # then the colours have the same meaning as above
    how = "colours as above" if joined else "a colour a cell"
    head = f"{picture.metric} over steps, a line for each of {len(picture.curves)} cells; {how}"
    yield f'<text class="t" x="{LEFT}" y="{top + 6}">{text(head)}</text>'
    yield from panel.grid(5)
    below = panel.top + _HIGH
    for step in ticks(span, 6):
        x = panel.x(span.share(step))
        yield f'<text x="{x:.1f}" y="{below + 16}" text-anchor="middle">{figure(step)}</text>'
    lines = list(picture.lines)
    for place, (name, (line, points)) in enumerate(picture.curves.items()):
        colour = colour_of(lines.index(line) if joined and line in lines else place)
        yield _path([(panel.x(span.share(step)), panel.y(value)) for step, value in points], colour, 0.6)
        if place < _COURSES_NAMED and not joined:
            yield from _named(name, colour, below + 34 + _LINE * place)


def _spot(panel: Frame, point: tuple[float, float, float | None, int], colour: str) -> Iterator[str]:
    x, mean, sd, n = point
    y = panel.y(mean)
    if sd is not None:
        high, low = panel.y(mean + sd), panel.y(mean - sd)
        whiskers = f"M{x:.1f} {high:.1f}V{low:.1f}M{x - 4:.1f} {high:.1f}h8M{x - 4:.1f} {low:.1f}h8"
        yield f'<path class="c" stroke="{colour}" d="{whiskers}"/>'
        yield f'<text class="s" x="{x + 6:.1f}" y="{y - 5:.1f}">n={n}</text>'
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'


def _named(name: str, colour: str, y: int) -> Iterator[str]:
    yield legend_mark(colour, y)
    yield f'<text x="{LEFT + 16}" y="{y}">{text(name[:_NAME_CHARS])}</text>'


def _path(spots: Sequence[tuple[float, float]], colour: str, opacity: float = 1.0) -> str:
    return f'<path class="c" stroke="{colour}" stroke-opacity="{opacity:g}" d="{path(spots)}"/>'


def _ends(mean: float, sd: float | None) -> tuple[float, ...]:
    return (mean,) if sd is None else (mean - sd, mean + sd)


def _widened(values: Sequence[float]) -> Span:
    low, high = min(values), max(values)
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return Span(low - room, high + room)
