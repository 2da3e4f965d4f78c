"""`lease sweep status`: the grid or the rows, the boxes and when they end, and what needs a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from leasehold.model.run.sweep import Account, BoxPace, Standing, Straggler
from leasehold.model.values.wording import ago, one_line
from leasehold.shells.cli.term_text import Chunk, display_width, gauge, paint
from leasehold.shells.cli.terminal import Look

from .sweep_grid import GOING_WELL, as_grid, draw_grid, legend, mark_of

_ROWS = 40
_NAMED = 5
_BAR = 10


def draw_standing(
    found: Standing, late: Mapping[str, Straggler], boxes: Sequence[BoxPace], look: Look
) -> Iterator[str]:
    """Draw the whole screen."""
    accounts = {account.cell: account for account in found.accounts}
    settled = sum(account.settled for account in found.accounts)
    bar = gauge(settled / max(1, len(found.accounts)), _BAR, look.glyphs)
    count = f"  {bar} {settled:,} of {len(found.accounts):,} cells home or waived"
    yield paint([Chunk(found.sweep, "bold"), Chunk(count)], look.columns, look.glyphs, look.colour)
    yield from legend(found.counts(), len(late), look)
    yield ""
    grid = as_grid(found.roster)
    if grid is not None:
        yield from draw_grid(grid, accounts, late, look)
    else:
        yield from _rows(found.accounts, late, look)
    yield from _boxes(boxes, look)
    yield from _late(late, accounts, look)
    yield from _trouble(found, look)


def _rows(accounts: Sequence[Account], late: Mapping[str, Straggler], look: Look) -> Iterator[str]:
    """List cells that make no grid: a row each, those that need a person first."""
    order = sorted(accounts, key=lambda account: account.word in GOING_WELL)
    width = min(max((display_width(account.cell) for account in order[:_ROWS]), default=0), look.columns // 2)
    for account in order[:_ROWS]:
        name = paint([Chunk(account.cell)], width, look.glyphs, False)
        pad = " " * (width - display_width(name))
        what = f"{account.word.value:10} {account.box}" + (f"  {one_line(account.what)}" if account.what else "")
        chunks = [mark_of(account, late, look), Chunk(f" {name}{pad}  {what}")]
        yield paint(chunks, look.columns, look.glyphs, look.colour)
    if len(order) > _ROWS:
        yield f"… and {len(order) - _ROWS} more: --json has them all"


def _boxes(boxes: Sequence[BoxPace], look: Look) -> Iterator[str]:
    shown = [box for box in boxes if box.cells]
    if boxes:
        yield ""
    width = min(24, max((display_width(box.box) for box in shown), default=0))
    for box in shown[:_ROWS]:
        bar = gauge(box.done / box.cells, _BAR, look.glyphs)
        text = f"{box.box[:width]:{width}}  {bar} {box.done:>4}/{box.cells:<4} {_doing(box)}"
        yield paint([Chunk(text, "yellow" if box.problem else "")], look.columns, look.glyphs, look.colour)
    if len(shown) > _ROWS:
        yield f"… and {len(shown) - _ROWS} more boxes: --json has them all"
    empty = [box.box for box in boxes if not box.cells]
    if empty:
        more = f" and {len(empty) - _NAMED} more" if len(empty) > _NAMED else ""
        text = f"no cells are left with {', '.join(empty[:_NAMED])}{more}: other boxes have them"
        yield f"{text}; lease down {empty[0]} --plan"


def _doing(box: BoxPace) -> str:
    if box.problem and box.done < box.cells:
        return f"unknown: {one_line(box.problem)}"
    parts = [f"{_about(box.left_s)} left"] if box.left_s is not None else []
    parts += [f"{len(box.running)} running"] if box.running else []
    parts += [f"{box.waiting} waiting"] if box.waiting else []
    parts += [f"{box.bad} need you"] if box.bad else []
    return ", ".join(parts) or "done"


def _about(seconds: float) -> str:
    """Format an estimate in its largest unit; more digits would be false precision."""
    return "about " + " ".join(ago(seconds).split()[:2])


def _late(late: Mapping[str, Straggler], accounts: Mapping[str, Account], look: Look) -> Iterator[str]:
    if late:
        yield ""
    for one in sorted(late.values(), key=lambda one: one.usual_s / one.ran_s)[:_NAMED]:
        where = f" on {accounts[one.cell].box}" if one.cell in accounts else ""
        text = f"late: runs for {ago(one.ran_s)}, its like took {ago(one.usual_s)}: {one.cell}{where}"
        yield paint([Chunk(text, "yellow")], look.columns, look.glyphs, look.colour)
    if len(late) > _NAMED:
        yield f"… and {len(late) - _NAMED} more that are late"


def _trouble(found: Standing, look: Look) -> Iterator[str]:
    bad = [account for account in found.accounts if account.word not in GOING_WELL]
    if not bad:
        return
    yield ""
    for account in bad[:_NAMED]:
        what = f": {one_line(account.what)}" if account.what else ""
        text = f"{account.word.value}: {account.cell} on {account.box or 'no box'}{what}"
        yield paint([Chunk(text, "red")], look.columns, look.glyphs, look.colour)
    more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    yield f"lease sweep reconcile {found.sweep} shows how to fix {'it' if len(bad) == 1 else 'them'}{more}"
