"""Curves as a picture: one SVG file, panels below each other, readable without this program."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from leasehold.model.run.curve import Curve
from leasehold.model.values.wording import one_line

from .braille import Span, clock_shape, labels_of, over_steps, segments, span_of, summary, value_span

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")  # told apart by the colour-blind too
_WIDTH, _PLOT_HIGH, _LEFT, _RIGHT, _TITLE_HIGH, _FOOT_HIGH = 860, 150, 70, 20, 20, 34
_TOP = 44
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.t{font-weight:600}.g{stroke:#ddd}"
    ".f{fill:none;stroke:#999}.c{fill:none;stroke-width:1.5;stroke-linejoin:round}"
)


def spell_svg(run: str, curves: Sequence[Curve]) -> str:
    """Spell the whole file."""
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
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" width="{_WIDTH}" height="{y}">',
            f"<style>{_STYLE}</style>",
            '<rect width="100%" height="100%" fill="#fff"/>',
            f'<text class="t" x="{_LEFT}" y="24">{_text(run)}, {day}</text>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _panel(group: Sequence[Curve], times: Span, top: int) -> Iterator[str]:
    values = value_span(group)
    for place, curve in enumerate(group):
        top += _TITLE_HIGH
        colour = _COLOURS[place % len(_COLOURS)]
        yield f'<rect x="{_LEFT}" y="{top - 15}" width="10" height="10" fill="{colour}"/>'
        said = f'<tspan class="t">{_text(curve.label)}</tspan> {_text(summary(curve))}'
        yield f'<text x="{_LEFT + 16}" y="{top - 6}">{said}</text>'
    wide = _WIDTH - _LEFT - _RIGHT
    by_step = over_steps(group)
    along_x = span_of(group, by_step=True) if by_step else times
    yield from _grid(values, top, wide)
    yield from _foot(along_x, top, wide, by_step=by_step)
    for place, curve in enumerate(group):
        path = " ".join(_path(piece, along_x, values, top) for piece in segments(curve, by_step=by_step))
        yield f'<path class="c" stroke="{_COLOURS[place % len(_COLOURS)]}" d="{path}"/>'


def _grid(values: Span, top: int, wide: int) -> Iterator[str]:
    marks = ticks(values, 4)
    for value, said in zip(marks, labels_of(marks), strict=True):
        y = top + (1 - values.share(value)) * _PLOT_HIGH
        yield f'<line class="g" x1="{_LEFT}" x2="{_LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{said}</text>'
    yield f'<rect class="f" x="{_LEFT}" y="{top}" width="{wide}" height="{_PLOT_HIGH}"/>'


def _foot(span: Span, top: int, wide: int, *, by_step: bool) -> Iterator[str]:
    """Say what lies where along the axis, nothing twice."""
    shape, last = clock_shape(span), ""
    for part in range(5):
        at = span.low + (span.high - span.low) * part / 4
        said = f"{at:,.0f}" if by_step else time.strftime(shape, time.localtime(at))
        said = f"step {said}" if by_step and part == 0 else said
        anchor = "start" if part == 0 else "end" if part == 4 else "middle"
        if said not in (last, last.removeprefix("step ")):
            x = _LEFT + wide * part / 4
            yield f'<text x="{x:.1f}" y="{top + _PLOT_HIGH + 16}" text-anchor="{anchor}">{said}</text>'
        last = said


def _path(piece: Sequence[tuple[float, float]], times: Span, values: Span, top: int) -> str:
    wide = _WIDTH - _LEFT - _RIGHT
    spots = [(_LEFT + times.share(at) * wide, top + (1 - values.share(value)) * _PLOT_HIGH) for at, value in piece]
    first, *rest = [f"{x:.1f} {y:.1f}" for x, y in spots]
    return f"M{first}" + (f"L{' '.join(rest)}" if rest else "h.1")


def ticks(span: Span, about: int) -> list[float]:
    """Choose round values inside a span: steps of 1, 2 or 5."""
    rough = (span.high - span.low) / about
    if rough <= 0 or not math.isfinite(rough):
        return [span.low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * times for times in (1, 2, 5, 10) if power * times >= rough)
    first = math.ceil(span.low / step - 1e-9)
    return [number * step for number in range(first, math.floor(span.high / step + 1e-9) + 1)]


def _text(value: str) -> str:
    return escape(one_line(value))
