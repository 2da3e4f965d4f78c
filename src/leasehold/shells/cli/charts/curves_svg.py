"""Curves as one self-contained SVG file, with the panels below each other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from leasehold.model.run.curve import Curve

from .braille import Span, clock_shape, over_steps, segments, span_of, summary, value_span
from .svg import LEFT, PLOT_WIDE, Frame, colour_of, legend_mark, page, path, text

_PLOT_HIGH, _TITLE_HIGH, _FOOT_HIGH = 150, 20, 34
_TOP = 44


def spell_svg(run: str, curves: Sequence[Curve]) -> str:
    """Format the whole file."""
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(curve.panel, []).append(curve)
    span = span_of(curves, by_step=False)
    parts: list[str] = []
    y = _TOP
    for group in groups.values():
        parts += _panel(group, span, y)
        y += _TITLE_HIGH * len(group) + _PLOT_HIGH + _FOOT_HIGH
    day = time.strftime("%Y-%m-%d", time.localtime(span.high))
    return page(f"{run}, {day}", y, parts)


def _panel(group: Sequence[Curve], times: Span, top: int) -> Iterator[str]:
    for place, curve in enumerate(group):
        top += _TITLE_HIGH
        yield legend_mark(colour_of(place), top - 6)
        said = f'<tspan class="t">{text(curve.label)}</tspan> {text(summary(curve))}'
        yield f'<text x="{LEFT + 16}" y="{top - 6}">{said}</text>'
    frame = Frame(top, _PLOT_HIGH, value_span(group))
    by_step = over_steps(group)
    along_x = span_of(group, by_step=True) if by_step else times
    yield from frame.grid(4)
    yield from _foot(along_x, frame, by_step=by_step)
    for place, curve in enumerate(group):
        pieces = segments(curve, by_step=by_step)
        drawn = " ".join(
            path([(frame.x(along_x.share(at)), frame.y(value)) for at, value in piece]) for piece in pieces
        )
        yield f'<path class="c" stroke="{colour_of(place)}" d="{drawn}"/>'


def _foot(span: Span, frame: Frame, *, by_step: bool) -> Iterator[str]:
    """Label the axis, with no repeated text."""
    shape, last = clock_shape(span), ""
    for part in range(5):
        at = span.low + (span.high - span.low) * part / 4
        said = f"{at:,.0f}" if by_step else time.strftime(shape, time.localtime(at))
        said = f"step {said}" if by_step and part == 0 else said
        anchor = "start" if part == 0 else "end" if part == 4 else "middle"
        if said not in (last, last.removeprefix("step ")):
            x = LEFT + PLOT_WIDE * part / 4
            yield f'<text x="{x:.1f}" y="{frame.top + _PLOT_HIGH + 16}" text-anchor="{anchor}">{said}</text>'
        last = said
