"""A sweep as a grid: one parameter down, one across, a glyph per cell; the seeds of a setting share a square."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from leasehold.model.job.cells import SEED, Cell, Scalar, differing, spell
from leasehold.model.run.sweep import Account, Word
from leasehold.shells.cli.term_text import Chunk, display_width, paint
from leasehold.shells.cli.terminal import Look

# glyph, the same in ASCII, colour
MARKS: Mapping[Word, tuple[str, str, str]] = {
    Word.HOME: ("●", "#", "green"),
    Word.WAIVED: ("○", "w", "dim"),
    Word.ON_BOX: ("◐", "o", "green"),
    Word.RUNNING: ("▶", ">", "bold"),
    Word.WAITING: ("·", ".", "dim"),
    Word.MISSING: ("∅", "m", "red"),
    Word.EMPTY: ("▯", "e", "red"),
    Word.STALE: ("~", "s", "red"),
    Word.BROKEN: ("⊘", "b", "red"),
    Word.FAILED: ("✗", "X", "red"),
    Word.STOPPED: ("■", "=", "yellow"),
    Word.UNKNOWN: ("?", "?", "yellow"),
}
GOING_WELL = (Word.HOME, Word.WAIVED, Word.ON_BOX, Word.RUNNING, Word.WAITING)
LATE = ("▷", "!", "yellow")  # a running cell that takes longer than comparable ones
_ONE_BY_ONE = 6  # cells of one square that are drawn; more are counted
_MOST_ROWS = 40
_HEAD_MOST = 14
_DENSE = 0.5  # share of the squares that must have a cell for a grid to be drawn


@dataclass(frozen=True)
class Grid:
    """Cells keyed by their row label and column label."""

    down: tuple[str, ...]
    across: str
    rows: Sequence[tuple[str, ...]]
    heads: Sequence[str]
    squares: Mapping[tuple[tuple[str, ...], str], Sequence[str]]


def as_grid(roster: Sequence[Cell]) -> Grid | None:
    """Arrange a sweep's cells by the parameters that differ; None where they make no grid."""
    axes = {key: len(values) for key, values in differing(roster).items() if key != SEED}
    if not axes or any(key not in cell.params for cell in roster for key in axes):
        return None
    across = min(axes, key=lambda key: (axes[key] > _HEAD_MOST, -axes[key])) if len(axes) > 1 else ""
    down = tuple(key for key in axes if key != across)
    grid = _lay_out(roster, down, across)
    while len(grid.rows) > _MOST_ROWS and len(down) > 1:
        down = down[:-1]
        grid = _lay_out(roster, down, across)
    return grid if len(grid.squares) >= _DENSE * len(grid.rows) * len(grid.heads) else None


def draw_grid(grid: Grid, accounts: Mapping[str, Account], late: Mapping[str, object], look: Look) -> Iterator[str]:
    """Draw the squares; report what does not fit across."""
    named = [" ".join(row) for row in grid.rows[:_MOST_ROWS]]
    label = " ".join(grid.down)
    left = min(max(map(display_width, [label, *named])), look.columns // 2)
    squares = {key: _square([accounts[name] for name in names], late, look) for key, names in grid.squares.items()}
    widths = [
        max(min(_HEAD_MOST, display_width(head)), *(_wide(squares.get((row, head), ())) for row in grid.rows))
        for head in grid.heads
    ]
    shown = _fitting(widths, look.columns - left - 2)
    if grid.across:
        yield _line([Chunk(f"{'':{left}}  {grid.across}", "dim")], look)
    heads = [Chunk(_padded(head, width) + "  ", "dim") for head, width in zip(grid.heads[:shown], widths, strict=False)]
    yield _line([Chunk(_padded(label, left) + "  ", "dim"), *heads], look)
    for row, name in zip(grid.rows, named, strict=False):
        chunks = [Chunk(_padded(name, left) + "  ")]
        for head, width in zip(grid.heads[:shown], widths, strict=False):
            square = squares.get((row, head), ())
            chunks += [*square, Chunk(" " * (width - _wide(square) + 2))]
        yield _line(chunks, look)
    if shown < len(grid.heads):
        yield f"… and {len(grid.heads) - shown} more columns: a wider terminal shows them, --json has them all"
    if len(grid.rows) > _MOST_ROWS:
        yield f"… and {len(grid.rows) - _MOST_ROWS} more rows: --json has them all"


def legend(words: Mapping[str, int], late: int, look: Look) -> Iterator[str]:
    """Explain and count the glyphs on the screen."""
    shown = [(MARKS[word], f"{words[word.value]:,} {word.value}") for word in Word if word.value in words]
    shown += [(LATE, f"{late} of these late")] if late else []
    chunks: list[Chunk] = []
    for mark, word in shown:
        item = [Chunk(mark[0 if look.glyphs else 1], mark[2]), Chunk(f" {word}")]
        if chunks and _wide([*chunks, *item]) + 3 > look.columns:
            yield _line(chunks, look)
            chunks = []
        chunks += [*([Chunk("   ")] if chunks else []), *item]
    yield _line(chunks, look)


def mark_of(account: Account, late: Mapping[str, object], look: Look) -> Chunk:
    """Draw one cell."""
    mark = LATE if account.cell in late and account.word is Word.RUNNING else MARKS[account.word]
    return Chunk(mark[0 if look.glyphs else 1], mark[2])


def _lay_out(roster: Sequence[Cell], down: tuple[str, ...], across: str) -> Grid:
    squares: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for cell in roster:
        row = tuple(_value(cell.params, key) for key in down)
        squares.setdefault((row, _value(cell.params, across) if across else ""), []).append(cell.name)
    rows = list(dict.fromkeys(row for row, _ in squares))
    return Grid(down, across, rows, list(dict.fromkeys(head for _, head in squares)), squares)


def _value(params: Mapping[str, Scalar], key: str) -> str:
    return spell(params[key]) if key in params else "-"


def _square(cells: Sequence[Account], late: Mapping[str, object], look: Look) -> list[Chunk]:
    marks = [mark_of(account, late, look) for account in cells]
    if len(marks) <= _ONE_BY_ONE:
        return marks
    done = sum(account.settled or account.word is Word.ON_BOX for account in cells)
    bad = [mark for account, mark in zip(cells, marks, strict=True) if account.word not in GOING_WELL]
    chunks = [Chunk(f"{done}/{len(cells)}", "green" if done == len(cells) else "")]
    chunks.append(Chunk(MARKS[Word.RUNNING][0 if look.glyphs else 1] if _any_runs(cells) else " "))
    return chunks + ([Chunk(f"{len(bad)}{MARKS[Word.FAILED][0 if look.glyphs else 1]}", "red")] if bad else [])


def _any_runs(cells: Sequence[Account]) -> bool:
    return any(account.word is Word.RUNNING for account in cells)


def _wide(chunks: Sequence[Chunk]) -> int:
    return sum(display_width(chunk.text) for chunk in chunks)


def _fitting(widths: Sequence[int], columns: int) -> int:
    used = shown = 0
    for width in widths:
        used += width + 2
        if used - 2 > columns and shown:
            break
        shown += 1
    return shown


def _padded(text: str, width: int) -> str:
    cut = paint([Chunk(text)], width, True, False)
    return cut + " " * (width - display_width(cut))


def _line(chunks: Sequence[Chunk], look: Look) -> str:
    return paint(chunks, look.columns, look.glyphs, look.colour)
