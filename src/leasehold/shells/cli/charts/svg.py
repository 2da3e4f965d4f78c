"""Shared parts of the pictures: page, palette, frame with grid, round tick values, lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from leasehold.model.values.wording import one_line

from .braille import Span, labels_of

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")  # distinguishable by the colour-blind too
WIDE, LEFT, RIGHT = 860, 70, 22
PLOT_WIDE = WIDE - LEFT - RIGHT
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.t{font-weight:600}.s{fill:#777;font-size:10px}.g{stroke:#ddd}"
    ".f{fill:none;stroke:#999}.c{fill:none;stroke-width:1.5;stroke-linejoin:round}"
)


@dataclass(frozen=True)
class Frame:
    """The area in which curves are drawn: its place on the page and its value axis."""

    top: int
    high: int
    values: Span

    def x(self, share: float) -> float:
        """Return the x coordinate of a share of the bottom axis."""
        return LEFT + share * PLOT_WIDE

    def y(self, value: float) -> float:
        """Return the y coordinate of a value."""
        return self.top + (1 - self.values.share(value)) * self.high

    def grid(self, lines: int) -> Iterator[str]:
        """Draw about this many horizontal lines, each with its value, and the frame around them."""
        marks = ticks(self.values, lines)
        for value, label in zip(marks, labels_of(marks), strict=True):
            y = self.y(value)
            yield f'<line class="g" x1="{LEFT}" x2="{LEFT + PLOT_WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
        yield f'<rect class="f" x="{LEFT}" y="{self.top}" width="{PLOT_WIDE}" height="{self.high}"/>'


def page(title: str, height: int, parts: Sequence[str]) -> str:
    """Format a whole file."""
    size = f'viewBox="0 0 {WIDE} {height}" width="{WIDE}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            f"<style>{_STYLE}</style>",
            '<rect width="100%" height="100%" fill="#fff"/>',
            f'<text class="t" x="{LEFT}" y="24">{text(title)}</text>',
            *parts,
            "</svg>",
            "",
        ]
    )


def legend_mark(colour: str, y: int) -> str:
    """Draw the square before a line's name."""
    return f'<rect x="{LEFT}" y="{y - 9}" width="10" height="10" fill="{colour}"/>'


def path(spots: Sequence[tuple[float, float]]) -> str:
    """Format the path through these points; a single point is a dot."""
    first, *rest = [f"{x:.1f} {y:.1f}" for x, y in spots]
    return f"M{first}" + (f"L{' '.join(rest)}" if rest else "h.1")


def colour_of(place: int) -> str:
    """Return a line's colour by its index."""
    return COLOURS[place % len(COLOURS)]


def ticks(span: Span, about: int) -> list[float]:
    """Choose round tick values inside a span, in steps of 1, 2 or 5."""
    rough = (span.high - span.low) / about
    if rough <= 0 or not math.isfinite(rough):
        return [span.low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * times for times in (1, 2, 5, 10) if power * times >= rough)
    first = math.ceil(span.low / step - 1e-9)
    return [number * step for number in range(first, math.floor(span.high / step + 1e-9) + 1)]


def text(value: str) -> str:
    """Escape text for the page, on one line."""
    return escape(one_line(value))
