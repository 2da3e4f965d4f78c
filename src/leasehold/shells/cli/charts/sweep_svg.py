"""A sweep as a picture: a metric against one parameter with its spread over seeds, and the courses of its cells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from leasehold.model.job.cells import Scalar, spell
from leasehold.model.run.sweep import SweepPlot
from leasehold.model.values.wording import one_line
from leasehold.shells.cli.term_text import figure

from .braille import Span
from .curves_svg import ticks

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")  # told apart by the colour-blind too
_WIDE, _HIGH, _LEFT, _RIGHT, _TOP, _GAP, _LINE = 860, 260, 70, 24, 48, 62, 18
_LEGEND_MOST, _COURSES_NAMED, _NAME_CHARS = 24, 12, 70
_LOG_FROM = 100.0  # of largest over smallest: then an axis counts in powers
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.t{font-weight:600}.s{fill:#777;font-size:10px}.g{stroke:#ddd}"
    ".f{fill:none;stroke:#999}.c{fill:none;stroke-width:1.5;stroke-linejoin:round}"
)


@dataclass(frozen=True)
class _Axis:
    """Where values of the bottom axis stand: by their size, by its logarithm, or one beside the other."""

    spots: Mapping[str, float]
    note: str = ""

    @classmethod
    def of(cls, values: Sequence[Scalar]) -> _Axis:
        """Choose how values are laid out."""
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


@dataclass(frozen=True)
class _Panel:
    """A frame, its value axis, and where it stands."""

    top: int
    values: Span

    def y(self, value: float) -> float:
        """Say how far down a value stands."""
        return self.top + (1 - self.values.share(value)) * _HIGH


def spell_sweep(sweep: str, picture: SweepPlot) -> str:
    """Spell the whole file."""
    parts = list(_by_axis(picture))
    height = _TOP + _HIGH + _GAP + _LINE * min(_LEGEND_MOST, len(picture.lines))
    if picture.curves:
        parts += _courses(picture, height + 12)
        height += _HIGH + _GAP + (0 if len(picture.lines) > 1 else _LINE * min(_COURSES_NAMED, len(picture.curves)))
    head = f"{sweep}: {picture.metric} by {picture.axis}"
    size = f'viewBox="0 0 {_WIDE} {height}" width="{_WIDE}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            f"<style>{_STYLE}</style>",
            '<rect width="100%" height="100%" fill="#fff"/>',
            f'<text class="t" x="{_LEFT}" y="26">{_text(head)}</text>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _by_axis(picture: SweepPlot) -> Iterator[str]:
    axis = _Axis.of([x for line in picture.lines.values() for x, *_ in line])
    spread = [value for line in picture.lines.values() for _, mean, sd, _ in line for value in _ends(mean, sd)]
    panel = _Panel(_TOP, _widened(spread))
    yield from _frame(panel)
    below = _TOP + _HIGH
    for name, spot in axis.spots.items():
        yield f'<text x="{_x(spot):.1f}" y="{below + 16}" text-anchor="middle">{_text(name)}</text>'
    title = f"{picture.axis}{axis.note}; mean, bars are ± sd over seeds, n beside"
    yield f'<text class="s" x="{_WIDE / 2:.0f}" y="{below + 32}" text-anchor="middle">{_text(title)}</text>'
    for place, (name, line) in enumerate(picture.lines.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        shift = (place - (len(picture.lines) - 1) / 2) * min(6.0, 60.0 / len(picture.lines))
        points = sorted((_x(axis.spots[spell(x)]) + shift, mean, sd, n) for x, mean, sd, n in line)
        yield _path([(x, panel.y(mean)) for x, mean, _, _ in points], colour)
        for x, mean, sd, n in points:
            yield from _spot(panel, (x, mean, sd, n), colour)
        if place < _LEGEND_MOST and name:
            yield from _named(name, colour, below + 52 + _LINE * place)


def _courses(picture: SweepPlot, top: int) -> Iterator[str]:
    panel = _Panel(top + 16, _widened([value for _, points in picture.curves.values() for _, value in points]))
    steps = [step for _, points in picture.curves.values() for step, _ in points]
    span = Span(min(steps), max(steps))
    joined = len(picture.lines) > 1  # then colours mean what they mean above
    how = "colours as above" if joined else "a colour a cell"
    head = f"{picture.metric} over steps, a line for each of {len(picture.curves)} cells; {how}"
    yield f'<text class="t" x="{_LEFT}" y="{top + 6}">{_text(head)}</text>'
    yield from _frame(panel)
    below = panel.top + _HIGH
    for step in ticks(span, 6):
        x = _x(span.share(step))
        yield f'<text x="{x:.1f}" y="{below + 16}" text-anchor="middle">{figure(step)}</text>'
    lines = list(picture.lines)
    for place, (name, (line, points)) in enumerate(picture.curves.items()):
        colour = _COLOURS[(lines.index(line) if joined and line in lines else place) % len(_COLOURS)]
        yield _path([(_x(span.share(step)), panel.y(value)) for step, value in points], colour, 0.6)
        if place < _COURSES_NAMED and not joined:
            yield from _named(name, colour, below + 34 + _LINE * place)


def _frame(panel: _Panel) -> Iterator[str]:
    for value in ticks(panel.values, 5):
        y = panel.y(value)
        yield f'<line class="g" x1="{_LEFT}" x2="{_WIDE - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{figure(value)}</text>'
    wide = _WIDE - _LEFT - _RIGHT
    yield f'<rect class="f" x="{_LEFT}" y="{panel.top}" width="{wide}" height="{_HIGH}"/>'


def _spot(panel: _Panel, point: tuple[float, float, float | None, int], colour: str) -> Iterator[str]:
    x, mean, sd, n = point
    y = panel.y(mean)
    if sd is not None:
        high, low = panel.y(mean + sd), panel.y(mean - sd)
        whiskers = f"M{x:.1f} {high:.1f}V{low:.1f}M{x - 4:.1f} {high:.1f}h8M{x - 4:.1f} {low:.1f}h8"
        yield f'<path class="c" stroke="{colour}" d="{whiskers}"/>'
        yield f'<text class="s" x="{x + 6:.1f}" y="{y - 5:.1f}">n={n}</text>'
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'


def _named(name: str, colour: str, y: int) -> Iterator[str]:
    yield f'<rect x="{_LEFT}" y="{y - 9}" width="10" height="10" fill="{colour}"/>'
    yield f'<text x="{_LEFT + 16}" y="{y}">{_text(name[:_NAME_CHARS])}</text>'


def _path(spots: Sequence[tuple[float, float]], colour: str, opacity: float = 1.0) -> str:
    first, *rest = [f"{x:.1f} {y:.1f}" for x, y in spots]
    d = f"M{first}" + (f"L{' '.join(rest)}" if rest else "h.1")
    return f'<path class="c" stroke="{colour}" stroke-opacity="{opacity:g}" d="{d}"/>'


def _x(share: float) -> float:
    return _LEFT + share * (_WIDE - _LEFT - _RIGHT)


def _ends(mean: float, sd: float | None) -> tuple[float, ...]:
    return (mean,) if sd is None else (mean - sd, mean + sd)


def _widened(values: Sequence[float]) -> Span:
    low, high = min(values), max(values)
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return Span(low - room, high + room)


def _text(value: str) -> str:
    return escape(one_line(value))
