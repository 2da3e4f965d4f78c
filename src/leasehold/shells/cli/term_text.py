"""Text on a terminal: made safe, measured in columns, coloured, and drawn as one-line pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from leasehold.model.values.wording import one_line

from .terminal import ANSI

_BLOCKS, _ASCII_BLOCKS = "▁▂▃▄▅▆▇█", "_.-~=+*#"


class Chunk(NamedTuple):
    """Words that stay together, in a colour: ANSI names separated by spaces."""

    text: str
    colour: str = ""


def display_width(text: str) -> int:
    """Count the columns that printable text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def clean(text: str, glyphs: bool) -> str:
    """Make text from a box safe to show on one line."""
    safe = text if text.isprintable() else one_line(text.expandtabs(8))
    return safe if glyphs else safe.encode("ascii", "replace").decode()


def paint(chunks: Sequence[Chunk], columns: int, glyphs: bool, colour: bool) -> str:
    """Join chunks, cut to the columns; colours never leak past their chunk."""
    parts: list[str] = []
    left = columns
    for chunk in chunks:
        text = _cut(clean(chunk.text, glyphs), left, glyphs)
        left -= display_width(text)
        codes = ";".join(ANSI[name] for name in chunk.colour.split())
        parts.append(f"\x1b[{codes}m{text}\x1b[0m" if codes and text and colour else text)
    return "".join(parts).rstrip(" ")


def _cut(text: str, columns: int, glyphs: bool) -> str:
    if display_width(text) <= columns:
        return text
    kept, used = 0, 1  # one column for the ellipsis
    for char in text:
        used += _columns(char)
        if used > columns:
            break
        kept += 1
    return text[:kept] + ("…" if glyphs else "~") if columns > 0 else ""


def _columns(char: str) -> int:
    if char.isascii():
        return 1
    import unicodedata  # a table of a megabyte, for few lines

    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def gauge(part: float, cells: int, glyphs: bool) -> str:
    """Draw a fraction as a bar."""
    full = min(cells, max(0, math.floor(part * cells + 0.5)))
    return "█" * full + "░" * (cells - full) if glyphs else f"[{'#' * full}{'-' * (cells - full)}]"


def sparkline(
    values: Sequence[float], columns: int, glyphs: bool = True, scale: tuple[float, float] | None = None
) -> str:
    """Draw values in the given number of characters; `!` marks NaN. An early peak does not flatten the rest."""
    count = min(columns, len(values))
    bounds = [(len(values) * number // count, len(values) * (number + 1) // count) for number in range(count)]
    means = [sum(values[start:end]) / (end - start) for start, end in bounds]
    finite = sorted(mean for mean in means if math.isfinite(mean)) or [0.0]
    low, high = scale or (finite[0], finite[-1 - len(finite) // 10])
    blocks = _BLOCKS if glyphs else _ASCII_BLOCKS
    top = len(blocks) - 1
    return "".join(
        blocks[min(top, max(0, round(top * (mean - low) / ((high - low) or 1.0))))] if math.isfinite(mean) else "!"
        for mean in means
    )


def figure(value: float) -> str:
    """Format a number with four digits."""
    return f"{value:.4g}"
