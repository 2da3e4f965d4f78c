"""Format a lease's meter: a line for `lease status`, chunks for the panel of `lease watch`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from leasehold.model.lease.lease import PARKED, UNKNOWN
from leasehold.model.lease.meter import DueClock, Loss, Meter
from leasehold.model.values.wording import ago
from leasehold.shells.cli.term_text import Chunk, display_width

_STALE_S = 600.0  # figures older than this are an upper bound
_SOON_S = 3 * 86400.0
_INDENT = "    "


def lease_lines(reading: Any, now_unix: float, columns: int = 0) -> list[str]:
    """Format a lease on one line; a terminal folds it between its parts, never inside one."""
    lease, meter = reading.lease, reading.meter
    since = ago(now_unix - meter.since_unix)
    state = f"asked to stop {since} ago, not confirmed" if meter.state == UNKNOWN else f"{meter.state} {since}"
    name = f"{lease.id}: {lease.box}" if reading.twin else lease.box  # the name that `lease down` accepts
    parts = [f"{name} ({lease.platform})", state]
    if lease.counted_by:
        return _folded([*parts, f"the same machine as {lease.counted_by}, which counts the meter of both"], columns)
    parts += [_money(meter)] if reading.metered else _allocation(reading)
    parts += [f"projected {meter.projected}"] if meter.projected is not None else []
    parts += [f"budget {spent.percent} % of {spent.limit:f} {spent.currency}" for spent in reading.budgets]
    risky = reading.metered and meter.box_loss is not None and meter.box_loss.seconds >= 1
    parts += [f"at risk {_loss(meter, meter.box_loss, now_unix)}"] if meter.box_loss and risky else []
    parts += say_clock(meter.next_clock, now_unix) if meter.next_clock else []
    parts += [f"no clocks: {reading.doubt}"] if reading.doubt else []
    return _folded(parts, columns)


def say_clock(clock: DueClock, now_unix: float) -> list[str]:
    """Format when the clock fires and what it deletes."""
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(clock.due_unix))
    past = "was due " if clock.due_unix <= now_unix else ""
    return [f"{past}{day} {clock.name}", *([f"deletes {', '.join(clock.deletes)}"] if clock.deletes else [])]


def cost_chunks(meter: Meter, eta_s: float | None, over: bool, now_unix: float, narrow: bool) -> Iterator[Chunk]:
    """Format cost, burn rate, projection and risk for the panel of a watch."""
    yield Chunk(_money(meter))
    projected = meter.cost + meter.burn.times(eta_s / 3600) if eta_s is not None and meter.priced else meter.projected
    if not over and meter.priced:
        yield Chunk(f"projected {projected}" if projected is not None else "projected total unknown", "dim")
    if over and meter.state != PARKED and meter.burn:
        yield Chunk("the box may still bill" if meter.state == UNKNOWN else "the box still bills", "yellow")
    if meter.box_loss and meter.box_loss.seconds >= 1:
        words = "at risk" if narrow else "if the box dies now you lose"
        yield Chunk(f"{words} {_loss(meter, meter.box_loss, now_unix)}", "yellow")
    if meter.process_loss and not over:
        words = "unsaved" if narrow else "if the process dies,"
        yield Chunk(f"{words} {_loss(meter, meter.process_loss, now_unix)}", "dim")


def clock_chunks(meter: Meter, now_unix: float) -> Iterator[Chunk]:
    """Format the nearest deadline for the panel of a watch."""
    clock = meter.next_clock
    if clock is not None:
        colour = "red" if clock.due_unix - now_unix < _SOON_S else ""
        yield from (Chunk(part, colour) for part in say_clock(clock, now_unix))
        if clock.do:
            yield Chunk(clock.do, "dim")


def _money(meter: Meter) -> str:
    if not meter.priced:
        kept = f"; storage {meter.burn}/h" if meter.burn else ""
        return f"no price known{kept}"
    if meter.state == UNKNOWN:
        return f"up to {meter.cost}, {meter.burn}/h if it is still on" if meter.burn else f"{meter.cost}"
    return f"{meter.cost}, " + (f"{meter.burn}/h" if meter.burn else "nothing an hour")


def _allocation(reading: Any) -> list[str]:
    trained_s, core_s, card_s = reading.used
    said = [f"no meter of money; trainers ran {ago(trained_s)}"]
    said += [f"used {_lent(core_s, 'core')}"] if core_s else []
    return [*said, _lent(card_s, "GPU")] if card_s else said


def _lent(seconds: float, what: str) -> str:
    return f"{seconds / 3600:.2f} {what}-hours" if seconds >= 360 else f"{seconds / 60:.1f} {what}-minutes"


def _loss(meter: Meter, loss: Loss, now_unix: float) -> str:
    """Format "11 min / 0.42 USD"; an old reading is an upper bound."""
    most = "up to " if meter.heard_unix and now_unix - meter.heard_unix > _STALE_S else ""
    return most + ago(loss.seconds) + (f" / {loss.cost}" if loss.cost else "")


def _folded(parts: list[str], columns: int) -> list[str]:
    lines = [parts[0]]
    for part in parts[1:]:
        if columns and display_width(lines[-1]) + 2 + display_width(part) > columns:
            lines.append(_INDENT + part)
        else:
            lines[-1] += "  " + part
    return lines
