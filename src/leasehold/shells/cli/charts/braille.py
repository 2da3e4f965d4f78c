"""Curves on a terminal: braille dots in a frame, or plain characters where the locale has no others."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from leasehold.model.run.curve import Curve
from leasehold.model.values.wording import ago
from leasehold.shells.cli.term_text import clean, display_width, figure
from leasehold.shells.cli.terminal import LINES, Look

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # bits of a braille cell, by row and column
_LABEL_COLUMNS = 9
_LEAST_COLUMNS, _ROWS_LEAST, _ROWS_MOST = 30, 4, 12
_GAP = 4  # a gap of this many usual distances breaks the line


class Span(NamedTuple):
    """The range that an axis covers."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Return the position of a value as a share from 0 to 1."""
        return min(1.0, max(0.0, (value - self.low) / ((self.high - self.low) or 1.0)))


def draw(curves: Sequence[Curve], look: Look) -> list[str]:
    """Draw one panel below the other."""
    times = span_of(curves, by_step=False)
    look = look._replace(columns=max(_LEAST_COLUMNS, look.columns), rows=max(_ROWS_LEAST, min(_ROWS_MOST, look.rows)))
    lines: list[str] = []
    for group in _panels(curves, look.colour):
        lines += [*([""] if lines else []), *_panel(group, times, look)]
    return lines


def over_steps(group: Sequence[Curve]) -> bool:
    """Return whether all of a panel's lines can be drawn over training steps."""
    return all(curve.by_step for curve in group if curve.known > 1) and any(curve.by_step for curve in group)


def along(curve: Curve, *, by_step: bool) -> tuple[tuple[float, float | None], ...]:
    """Return a curve's points over the axis of its panel."""
    if not by_step or len(curve.steps) != len(curve.points):
        return () if by_step else curve.points
    return tuple((step, value) for step, (_, value) in zip(curve.steps, curve.points, strict=True) if step is not None)


def span_of(curves: Sequence[Curve], *, by_step: bool) -> Span:
    """Return the span that the axis of these curves covers."""
    found = [at for curve in curves for at, _ in along(curve, by_step=by_step)]
    return Span(min(found, default=0.0), max(found, default=0.0))


def labels_of(values: Sequence[float]) -> list[str]:
    """Format the figures of an axis so that different ones look different."""
    for digits in range(4, 16):
        said = [f"{value:.{digits}g}" for value in values]
        if len(set(said)) == len(set(values)):
            return said
    return said


def value_span(curves: Sequence[Curve]) -> Span:
    """Return the value axis of a panel: from 0 to its natural end, or to its extreme values."""
    top = curves[0].top
    values = [value for curve in curves for _, value in curve.points if value is not None] or [0.0]
    if top is not None:
        return Span(0.0, max(top, *values))
    low, high = min(values), max(values)
    if high - low < 1e-9 * max(abs(high), 1e-12):
        pad = abs(high) * 0.1 or 1.0
        return Span(low - pad, high + pad)
    return Span(low, high)


def segments(curve: Curve, *, by_step: bool = False) -> Iterator[list[tuple[float, float]]]:
    """Yield the pieces of a curve, split where nothing was measured and where training fell back to an earlier step."""
    if by_step:
        yield from _step_segments(along(curve, by_step=True))
        return
    steps = sorted(after[0] - before[0] for before, after in pairwise(curve.points))
    usual = steps[len(steps) // 2] if steps else 0.0
    piece: list[tuple[float, float]] = []
    last = None
    for at, value in curve.points:
        far = last is not None and at - last > _GAP * max(usual, _spacing(at, curve))
        if piece and (value is None or far):
            yield piece
            piece = []
        if value is not None:
            piece.append((at, value))
        last = at
    if piece:
        yield piece


def _step_segments(points: Sequence[tuple[float, float | None]]) -> Iterator[list[tuple[float, float]]]:
    piece: list[tuple[float, float]] = []
    for step, value in points:
        if piece and (value is None or step < piece[-1][0]):
            yield piece
            piece = []
        if value is not None:
            piece.append((step, value))
    if piece:
        yield piece


def _spacing(at: float, curve: Curve) -> float:
    """Return the usual distance of readings; older ones lie further apart: 10 min after a day, one after an hour."""
    age = curve.points[-1][0] - at
    return 600.0 if age > 86400 - 600 else 60.0 if age > 3600 - 60 else 5.0


def summary(curve: Curve) -> str:
    """Summarize a curve in words: the newest value, and its range."""
    values = [value for _, value in curve.points if value is not None]
    if not values:
        return "last not a number"
    unit = f" {curve.unit}" if curve.unit and curve.unit != "/s" else curve.unit
    newest = curve.points[-1][1]
    said = "not a number" if newest is None else figure(newest) + unit
    return f"last {said}, {figure(min(values))} to {figure(max(values))}"


def _panels(curves: Sequence[Curve], together: bool) -> list[list[Curve]]:
    """Return the panels to draw; without colours each line gets its own, since two in one frame look the same."""
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(curve.panel if together else f"{curve.panel}\0{curve.name}", []).append(curve)
    return list(groups.values())


def _panel(group: Sequence[Curve], times: Span, look: Look) -> list[str]:
    if all(curve.known < 2 for curve in group):
        return list(_titles(group, look))  # one reading is not a curve: the line above the frame shows all of it
    by_step = over_steps(group)
    along_x = span_of(group, by_step=True) if by_step else times
    values, width = value_span(group), look.columns - _LABEL_COLUMNS - 1
    canvas = _Canvas(width, look.rows, look.glyphs)
    for place, curve in enumerate(group):
        for piece in segments(curve, by_step=by_step):
            canvas.line([(along_x.share(at), values.share(value)) for at, value in piece], place)
    lines = list(_titles(group, look))
    marks = labels_of([values.high, (values.high + values.low) / 2, values.low])
    labels = dict(zip((0, look.rows // 2, look.rows - 1), marks, strict=True))
    edge, tick, corner, bar = ("│", "┤", "└", "─") if look.glyphs else ("|", "+", "+", "-")
    for row in range(look.rows):
        label = (
            labels[row][: _LABEL_COLUMNS - 1].rjust(_LABEL_COLUMNS - 1) + " " if row in labels else " " * _LABEL_COLUMNS
        )
        lines.append(label + (tick if row in labels else edge) + canvas.row(row, look.colour and len(group) > 0))
    lines.append(" " * _LABEL_COLUMNS + corner + bar * width)
    foot = _step_line(along_x, width) if by_step else _clock_line(times, width)
    lines.append(" " * (_LABEL_COLUMNS + 1) + foot)
    return lines


def _titles(group: Sequence[Curve], look: Look) -> Iterator[str]:
    for place, curve in enumerate(group):
        text = clean(f"{curve.label}: {summary(curve)}", look.glyphs)[: look.columns]
        yield f"\x1b[{LINES[place % len(LINES)]}m{text}\x1b[0m" if look.colour else text


def _clock_line(times: Span, width: int) -> str:
    shape = clock_shape(times)
    first = time.strftime(shape, time.localtime(times.low))
    last = time.strftime(shape, time.localtime(times.high))
    return _spaced(first, ago(times.high - times.low), last, width)


def clock_shape(times: Span) -> str:
    """Return the time format under an axis, fine enough that its two ends differ."""
    covers_s = times.high - times.low
    return "%m-%d %H:%M" if covers_s > 86400 / 2 else "%H:%M" if covers_s > 1200 else "%H:%M:%S"


def _step_line(steps: Span, width: int) -> str:
    first, middle, last = f"step {steps.low:,.0f}", f"{(steps.low + steps.high) / 2:,.0f}", f"{steps.high:,.0f}"
    return _spaced(first, middle if middle not in (first[5:], last) else "", last, width)


def _spaced(first: str, middle: str, last: str, width: int) -> str:
    """Place three words along an axis; the middle one only where it fits."""
    middle = middle if width - display_width(first + middle + last) >= 2 else ""
    room = max(1, width - display_width(first + middle + last))
    return first + " " * (room // 2) + middle + " " * (room - room // 2) + last


class _Canvas:
    """A grid of dots, and the curve that owns each character."""

    def __init__(self, width: int, rows: int, glyphs: bool) -> None:
        self._glyphs = glyphs
        self._across, self._down = (2, 4) if glyphs else (1, 1)
        self._wide, self._high = width * self._across, rows * self._down
        self._bits = [[0] * width for _ in range(rows)]
        self._owner = [[0] * width for _ in range(rows)]

    def line(self, points: Sequence[tuple[float, float]], owner: int) -> None:
        """Join points given as shares of width and height."""
        dots = [(round(x * (self._wide - 1)), round((1 - y) * (self._high - 1))) for x, y in points]
        self._dot(*dots[0], owner)
        for (x, y), (to_x, to_y) in pairwise(dots):
            steps = max(abs(to_x - x), abs(to_y - y), 1)
            for step in range(1, steps + 1):
                self._dot(round(x + (to_x - x) * step / steps), round(y + (to_y - y) * step / steps), owner)

    def row(self, row: int, colour: bool) -> str:
        """Format one row of characters."""
        parts = []
        for bits, owner in zip(self._bits[row], self._owner[row], strict=True):
            char = (chr(0x2800 + bits) if self._glyphs else "*") if bits else " "
            parts.append(f"\x1b[{LINES[owner % len(LINES)]}m{char}\x1b[0m" if bits and colour else char)
        return "".join(parts).rstrip()

    def _dot(self, x: int, y: int, owner: int) -> None:
        column, row = x // self._across, y // self._down
        self._bits[row][column] |= _DOTS[y % 4][x % 2] if self._glyphs else 1
        self._owner[row][column] = owner
