"""The panel of `lease watch`: a few rows of text about a run, made from data alone."""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from leasehold.model.lease.meter import Meter
from leasehold.model.lease.off_the_box import say_refuge
from leasehold.model.values.units import GIB, ago, number, say_gib
from leasehold.model.values.wording import one_line
from leasehold.shells.cli.term_text import Chunk, display_width, figure, gauge, paint, sparkline

from .meter_lines import clock_chunks, cost_chunks

_PHASE_COLOURS = {"running": "green", "finished": "green", "failed": "red"}  # any other is yellow
OVER = ("finished", "failed", "stopped")
_LABEL_COLUMNS = 6
_REASON_CHARS = 600
_GAP = "   "
_MARKS = {"finished": "●", "failed": "✗", "running": "▶", "": "·"}  # the glyphs of `lease sweep status`
_ASCII_MARKS = {"finished": "#", "failed": "X", "running": ">", "": "."}
_NAMED = 3
_QUIET_S, _LONG_QUIET_S = 60, 300
_FULL, _NEARLY_FULL = 0.95, 0.85  # requirements 16.7: 95 % of bytes or inodes escalates
_MEMORY_HIGH = 0.90  # requirements 16.9
IDLE_UTIL, _HOT_C = 5, 85
_FORETOLD_S = 12 * 3600.0  # a disk that fills later than this is not reported


class Measured(Protocol):
    """How far a training is: same shape as kit.progress.Progress."""

    @property
    def step(self) -> int | None: ...
    @property
    def total(self) -> int | None: ...
    @property
    def epoch(self) -> float | None: ...
    @property
    def epochs(self) -> int | None: ...
    @property
    def loss(self) -> float | None: ...
    @property
    def metrics(self) -> Mapping[str, float]: ...
    @property
    def rate_per_s(self) -> float | None: ...
    @property
    def eta_s(self) -> float | None: ...
    @property
    def seen_at(self) -> float | None: ...
    @property
    def eta_of(self) -> str: ...
    @property
    def restarts(self) -> int: ...


class Cells(NamedTuple):
    """Counts of a run's cells by state."""

    finished: int = 0
    failed: int = 0
    promised: int = 0
    states: Sequence[str] = ()  # finished, failed, running, or empty: one for each cell, in order
    running: Sequence[str] = ()  # the cells' names


@dataclass(frozen=True)
class WatchView:
    """A run at one moment. Ages are in seconds; None is unknown. `readings` are the box's, every key optional."""

    run: str
    box: str
    phase: str = "launching"  # launching running stalled stopping finished failed stopped unknown
    phase_s: float | None = None
    was: str = ""  # while unknown: the last known phase
    seen_s: float | None = None
    reason: str = ""
    attempt: int = 0
    cells: Cells = Cells()
    progress: Measured | None = None
    progress_s: float | None = None
    losses: Sequence[float] = ()
    quiet_s: float | None = None
    readings: Mapping[str, Any] = field(default_factory=dict)
    log: Sequence[str] = ()
    hint: str = "Ctrl-C leaves the run running"
    now_unix: float = 0.0
    glyphs: bool = True  # whether the terminal shows glyphs beyond ASCII


class _Row(NamedTuple):
    weight: int  # lower weights stay longer when the terminal is short
    label: str
    chunks: list[Chunk]
    more: int = 20  # weight of the lines after the first


class _Line(NamedTuple):
    order: tuple[int, int]  # rows keep their order whatever their weight
    weight: int
    chunks: list[Chunk]


def render(view: WatchView, width: int, height: int, colour: bool) -> list[str]:
    """Draw the view in at most height lines, each narrower than width: the log above, the rows below."""
    columns = max(8, width - 1)  # the last column stays free: some terminals wrap there
    lines = [line for number, row in enumerate(_rows(view, columns)) for line in _flow(number, row, columns)]
    log_rows = min(len(view.log), 2, max(0, height - 4))
    kept = sorted(sorted(lines, key=lambda line: line.weight)[: max(1, height - log_rows)])
    panel = [paint(line.chunks, columns, view.glyphs, colour) for line in kept]
    log = view.log[-(height - len(panel)) :] if height > len(panel) else []
    return [paint([Chunk(line)], columns, view.glyphs, colour) for line in log] + panel


def cards_of(readings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the GPUs among a box's readings."""
    listed = readings.get("gpus")
    return [card for card in listed if isinstance(card, Mapping)] if isinstance(listed, (list, tuple)) else []


def _rows(view: WatchView, columns: int) -> Iterator[_Row]:
    yield _Row(9, "", [Chunk(("─" if view.glyphs else "-") * columns, "dim")])
    yield _Row(0, "", list(_status(view)), more=5)
    yield _Row(1, "", list(_trouble(view)))
    yield _Row(1, "alarm", list(_alarms(view)), more=6)
    yield _Row(4, "", list(_reason(view, columns)))
    yield _Row(2, "step", list(_steps(view, columns)))
    yield _Row(3, "time", list(_times(view)))
    yield _Row(5, "cells", list(_cells(view, columns)))
    yield _Row(5, "loss", list(_losses(view, columns)))
    yield _Row(6, "cost", list(_cost(view, columns)), more=6)
    yield _Row(6, "safe", list(_refuge(view)), more=6)
    yield _alarming(_Row(8, "clock", list(_clock(view))))
    yield _alarming(_Row(7, "box", list(_box(view, columns))))
    yield from map(_alarming, _cards(view, columns))
    yield _Row(4, "", [Chunk(view.hint, "dim")] if view.hint else [])


def _alarming(row: _Row) -> _Row:
    """Return first what is about to break, and keep it on the shortest terminal."""
    worst_first = sorted(row.chunks, key=lambda chunk: (chunk.colour != "red", chunk.colour != "yellow"))
    return _Row(3, row.label, worst_first) if any(chunk.colour == "red" for chunk in row.chunks) else row


def _status(view: WatchView) -> Iterator[Chunk]:
    yield Chunk(view.phase.upper() + _since(view), "bold " + _PHASE_COLOURS.get(view.phase, "yellow"))
    yield Chunk(f"{view.run} on {view.box}", "bold")
    if view.attempt:
        yield Chunk(f"attempt {view.attempt}")
    if view.cells.promised > 1:
        failed = f", {view.cells.failed} failed" if view.cells.failed else ""
        yield Chunk(f"{view.cells.finished} of {view.cells.promised} cells done{failed}", "red" if failed else "")


def _cells(view: WatchView, columns: int) -> Iterator[Chunk]:
    """Draw a sweep's cells in order, or their shares where there are many; then name those that run."""
    cells = view.cells
    if cells.promised < 2:
        return
    if len(cells.states) <= columns - _LABEL_COLUMNS:
        marks = _MARKS if view.glyphs else _ASCII_MARKS
        yield Chunk("".join(marks.get(state, marks[""]) for state in cells.states))
    else:
        yield Chunk(gauge(cells.finished / cells.promised, min(30, columns // 3), view.glyphs))
    for name in cells.running[:_NAMED]:
        yield Chunk(f"{'▶' if view.glyphs else '>'} {name}")
    if len(cells.running) > _NAMED:
        yield Chunk(f"and {len(cells.running) - _NAMED} more run")


def _since(view: WatchView) -> str:
    if view.phase_s is None:
        return ""
    if view.phase in OVER:
        return " just now" if view.phase_s < 5 else f" {ago(view.phase_s)} ago"
    return f" for {ago(view.phase_s)}"


def _trouble(view: WatchView) -> Iterator[Chunk]:
    if view.phase == "unknown":
        seen = "never seen yet" if view.seen_s is None else f"last seen {view.was or 'alive'} {ago(view.seen_s)} ago"
        yield Chunk(seen, "yellow")
        yield Chunk("below is what was known then", "yellow")
    if view.phase == "stalled":
        yield Chunk(f"no output for {ago(view.quiet_s or 0)}", "yellow")
        if cards_of(view.readings):
            yield Chunk("its GPUs are idle", "yellow")


def _alarms(view: WatchView) -> Iterator[Chunk]:
    listed = view.readings.get("alarms")
    for name in listed if isinstance(listed, list) and view.phase not in OVER else ():
        yield Chunk(str(name).replace("_", " "), "red")


def _reason(view: WatchView, columns: int) -> Iterator[Chunk]:
    for part in textwrap.wrap(view.reason[:_REASON_CHARS], columns)[:3]:
        yield Chunk(part, "red" if view.phase == "failed" else "")


def _steps(view: WatchView, columns: int) -> Iterator[Chunk]:
    seen = view.progress
    if seen is None or (seen.step is None and seen.epoch is None):
        if view.phase == "running":
            yield Chunk("none seen in the log yet", "dim")
        return
    part = _fraction(seen.step, seen.total)
    if part is None and seen.step is None:
        part = _fraction(seen.epoch, seen.epochs)
    if part is not None:
        yield Chunk(f"{gauge(part, min(30, columns // 4), view.glyphs)} {math.floor(part * 100)}%")
    if seen.step is not None:
        yield Chunk(f"{seen.step:,}" + (f" / {seen.total:,}" if seen.total else ""))
    if seen.epoch is not None:
        yield Chunk(f"epoch {figure(seen.epoch)}" + (f" / {seen.epochs}" if seen.epochs else ""))
    if seen.restarts:
        yield Chunk(f"went back {seen.restarts}x", "yellow")


def _times(view: WatchView) -> Iterator[Chunk]:
    seen = view.progress
    if seen is not None and seen.eta_s is not None and view.phase not in OVER:
        yield _eta(view, seen.eta_s, "this epoch" if seen.eta_of == "epoch" else "done")
    if seen is not None and seen.rate_per_s and view.phase not in OVER:
        rate = seen.rate_per_s
        yield Chunk(f"{rate:,.3g} steps/s" if rate >= 1 else f"{1 / rate:,.3g} s a step")
    quiet_s = view.quiet_s or 0.0
    if view.phase == "running" and quiet_s >= _QUIET_S:
        yield Chunk(f"no output for {ago(quiet_s)}", "yellow" if quiet_s >= _LONG_QUIET_S else "dim")


def _eta(view: WatchView, eta_s: float, what: str) -> Chunk:
    left = eta_s - (view.progress_s or 0.0)
    if view.phase != "running":
        return Chunk(f"{what} in {ago(eta_s)} when last seen", "dim")
    if left < -60:
        return Chunk(f"{what} was due {ago(-left)} ago", "yellow")
    if left < 1:
        return Chunk(f"{what} any moment")
    left = round(left / 60) * 60 if left >= 600 else left  # seconds are false precision past an hour
    moment = time.localtime(view.now_unix + left)
    return Chunk(f"{what} in {ago(left)}, about {time.strftime('%H:%M' if left < 72000 else '%a %H:%M', moment)}")


def _losses(view: WatchView, columns: int) -> Iterator[Chunk]:
    seen = view.progress
    if seen is None or (seen.loss is None and not seen.metrics):
        return
    if seen.loss is not None:
        broken = not math.isfinite(seen.loss)
        yield Chunk(figure(seen.loss) + (", not a number any more" if broken else ""), "red" if broken else "bold")
    if len(view.losses) > 1:
        first = next((loss for loss in view.losses if math.isfinite(loss)), math.nan)
        yield Chunk(f"{sparkline(view.losses, min(40, columns // 3), view.glyphs)} from {figure(first)}")
    for name, value in list(seen.metrics.items())[-4:]:
        yield Chunk(f"{name} {figure(value)}", "dim")


def _cost(view: WatchView, columns: int) -> Iterator[Chunk]:
    meter = view.readings.get("meter")
    if not isinstance(meter, Meter) or not (meter.priced or meter.burn):
        return
    seen = view.progress
    whole = seen is not None and seen.eta_s is not None and seen.eta_of != "epoch" and view.phase == "running"
    eta_s = max(0.0, seen.eta_s - (view.progress_s or 0.0)) if whole and seen and seen.eta_s is not None else None
    yield from cost_chunks(meter, eta_s, view.phase in OVER, view.now_unix, columns < 60)


def _refuge(view: WatchView) -> Iterator[Chunk]:
    refuge = view.readings.get("refuge")
    if not isinstance(refuge, Mapping) or not refuge or view.phase in OVER:
        return
    first, *failures = say_refuge(refuge)
    yield Chunk(first, "" if "age_s" in refuge else "yellow")
    yield from (Chunk(line, "yellow") for line in failures)


def _clock(view: WatchView) -> Iterator[Chunk]:
    meter = view.readings.get("meter")
    if isinstance(meter, Meter):
        yield from clock_chunks(meter, view.now_unix)


def _box(view: WatchView, columns: int) -> Iterator[Chunk]:
    read = view.readings.get
    cells = max(4, min(10, columns // 8))
    for name, free, total in (
        ("disk", number(read("disk_free_bytes")), number(read("disk_total_bytes"))),
        ("inodes", number(read("inodes_free")), number(read("inodes_total"))),
    ):
        part = _fraction(None if free is None or total is None else total - free, total)
        if part is not None and free is not None:
            left = (
                f"{free:,.0f} left" if name == "inodes" else f"{say_gib(free)} free{_full_in(read('disk_full_in_s'))}"
            )
            only, colour = ("only ", "yellow") if part >= _NEARLY_FULL else ("", "")
            yield Chunk(f"{name} {gauge(part, cells, view.glyphs)} {only}{left}", "red" if part >= _FULL else colour)
    used, limit = number(read("memory_used_bytes")), number(read("memory_limit_bytes"))
    part = _fraction(used, limit)
    if part is not None and used is not None and limit is not None:
        colour = "red" if part > _MEMORY_HIGH else ""
        soon = _full_in(read("memory_full_in_s"))
        yield Chunk(f"memory {gauge(part, cells, view.glyphs)} {say_gib(used)} of {say_gib(limit)}{soon}", colour)
    rss, cpu = number(read("trainer_rss_bytes")), number(read("trainer_cpu_percent"))
    if rss is not None and view.phase not in OVER:
        share = f", {cpu:.0f}% of a core" if cpu is not None else ""
        yield Chunk(f"trainer {say_gib(rss)}{share}", "dim")


def _full_in(seconds: Any) -> str:
    left_s = number(seconds)
    return f", full in {ago(left_s)}" if left_s is not None and left_s < _FORETOLD_S else ""


def _cards(view: WatchView, columns: int) -> Iterator[_Row]:
    cards = cards_of(view.readings)
    if len(cards) > 2:
        yield _Row(8, "gpus", list(_many_cards(cards, view)))
        return
    for place, card in enumerate(cards):
        yield _Row(8, f"gpu {place}", list(_card(card, view, max(4, min(10, columns // 8)))))


def _card(card: Mapping[str, Any], view: WatchView, cells: int) -> Iterator[Chunk]:
    util, heat = number(card.get("util")), number(card.get("temperature"))
    used, total = number(card.get("memory_used")), number(card.get("memory_total"))
    if util is not None:
        idle = view.phase in ("running", "stalled") and util <= IDLE_UTIL
        bar = gauge(util / 100, cells, view.glyphs)
        yield Chunk(f"{bar} {util:.0f}%" + (" idle" if idle else ""), "yellow" if idle else "")
    if used is not None and total:
        yield Chunk(f"{used / GIB:.0f} / {say_gib(total)}")
    if heat is not None:
        yield Chunk(f"{heat:.0f} C", "red" if heat >= _HOT_C else "")
    power = number(card.get("power"))
    if power is not None:
        yield Chunk(f"{power:.0f} W")
    for word, key, colour in (("throttled", "slowed", "red"), ("shared with", "others", "yellow")):
        if isinstance(card.get(key), list):
            yield Chunk(f"{word} {', '.join(map(str, card[key]))}".replace("_", " "), colour)
    if card.get("name"):
        yield Chunk(str(card["name"]), "dim")


def _many_cards(cards: Sequence[Mapping[str, Any]], view: WatchView) -> Iterator[Chunk]:
    utils = [number(card.get("util")) for card in cards]
    known = [util for util in utils if util is not None]
    if known:
        shape = sparkline([math.nan if util is None else util for util in utils], len(utils), view.glyphs, (0.0, 100.0))
        yield Chunk(f"{shape} {sum(known) / len(known):.0f}%")
    idle = [str(number) for number, util in enumerate(utils) if util is not None and util <= IDLE_UTIL]
    if idle and view.phase in ("running", "stalled"):
        yield Chunk(f"gpu {', '.join(idle)} idle", "yellow")
    used, total = (sum(number(card.get(key)) or 0.0 for card in cards) for key in ("memory_used", "memory_total"))
    if total:
        yield Chunk(f"{used / GIB:.0f} / {say_gib(total)}")
    heat = max((number(card.get("temperature")) or 0.0 for card in cards), default=0.0)
    if heat:
        yield Chunk(f"up to {heat:.0f} C", "red" if heat >= _HOT_C else "")
    if cards[0].get("name"):
        yield Chunk(f"{len(cards)} x {cards[0]['name']}", "dim")


def _flow(number: int, row: _Row, columns: int) -> Iterator[_Line]:
    """Fill lines with the row's chunks; those that do not fit go to lines that are dropped first."""
    room = columns - _LABEL_COLUMNS if row.label else columns
    lines: list[list[Chunk]] = []
    used = 0
    for chunk in row.chunks:
        wide = display_width(one_line(chunk.text))
        if lines and used + len(_GAP) + wide <= room:
            lines[-1] += [Chunk(_GAP), chunk]
            used += len(_GAP) + wide
        else:
            lines.append([chunk])
            used = wide
    for index, chunks in enumerate(lines):
        label = row.label if index == 0 else ""
        head = [Chunk(label.ljust(_LABEL_COLUMNS), "dim")] if row.label else []
        yield _Line((number, index), row.more if index else row.weight, head + chunks)


def _fraction(part: float | None, whole: float | None) -> float | None:
    return min(1.0, max(0.0, part / whole)) if part is not None and whole else None
