"""From the box's series to curves: nothing in it is trusted, every figure may be missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leasehold.errors import UserError
from leasehold.kit.terminal import plain
from leasehold.model.curve import Curve, Point
from leasehold.platforms.engines.caretaker import CaretakerEngine

from .home_copy import HomeCopy

DEFAULT = ("loss", "gpu", "mem", "disk", "step-rate")
_MOST_RECORDS = 20_000
_MOST_LINES = 16  # cards or disks in one panel
_GIB = 1024.0  # the series counts in MiB

Record = Mapping[str, Any]
Find = Callable[[Record], Any]


@dataclass(frozen=True)
class Measured:
    """What a box measured: its records, oldest first, its newest sample, and its own clock."""

    now_unix: float = 0.0
    records: Sequence[Record] = ()
    newest: Record = field(default_factory=dict)
    alarms: tuple[str, ...] = ()


def read_series(engine: CaretakerEngine | HomeCopy, run: str, last_s: float) -> Measured:
    """Ask the box for a window of its series."""
    records: list[Record] = []
    last: dict[str, Any] = {}
    for answer in engine.series(run, int(last_s)):
        found = answer.get("records")
        if isinstance(found, list):
            records += [one for one in found if isinstance(one, dict) and number(one.get("t")) is not None]
        else:
            last = answer
        if len(records) > _MOST_RECORDS:
            break
    newest, health = last.get("newest"), last.get("health")
    alarms = health.get("alarms") if isinstance(health, dict) else None
    return Measured(
        number(last.get("now_unix")) or 0.0,
        records,
        newest if isinstance(newest, dict) else {},
        tuple(plain(str(name))[:120] for name in alarms[:32]) if isinstance(alarms, list) else (),
    )


def curves_of(seen: Measured, wanted: Sequence[str] = ()) -> list[Curve]:
    """Draw out what was asked for; without a wish, of the usual figures those that were measured."""
    found = [curve for what in wanted or DEFAULT for curve in _panel(seen, what)]
    missing = [what for what in wanted if not any(curve.panel == what for curve in found)]
    if missing:
        raise UserError(
            "plot.nothing",
            f"nothing measured for {', '.join(missing)}",
            seen=f"{len(seen.records)} readings in this window",
            hint=f"there is: {', '.join(_there(seen)) or 'nothing yet; a reading comes every 5 seconds'}",
        )
    return found


def number(value: Any) -> float | None:
    """Trust nothing that a box sends to be a number."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None


def _panel(seen: Measured, what: str) -> Iterator[Curve]:
    if what in _ROWS:
        yield from _rows(seen, what, _ROWS[what])
        return
    unit, find, top = _FIGURES.get(what, ("", lambda record: _metric(record, what), None))
    points = _points(seen.records, find)
    if any(value is not None for _, value in points):
        yield Curve(what, what, unit, points, top)


def _rows(seen: Measured, what: str, row: _Row) -> Iterator[Curve]:
    """One curve for each card or disk."""
    widest = max((len(_listed(record, row.of)) for record in seen.records), default=0)
    for place in range(min(widest, _MOST_LINES)):
        points = _points(seen.records, lambda record, at=place: row.read(record, at))  # type: ignore[misc]
        if any(value is not None for _, value in points):
            yield Curve(what, row.name(seen, place), row.unit, points, row.top)


def _points(records: Sequence[Record], find: Find) -> tuple[Point, ...]:
    found = ((float(record["t"]), find(record)) for record in records)
    return tuple((at, number(value)) for at, value in found if value is not _ABSENT)


_ABSENT = object()


def _figure(name: str) -> Find:
    return lambda record: record.get(name, _ABSENT)


def _metric(record: Record, name: str) -> Any:
    metrics = record.get("m")
    return metrics.get(name, _ABSENT) if isinstance(metrics, dict) else _ABSENT


def _gib(name: str) -> Find:
    def find(record: Record) -> Any:
        value = number(record.get(name))
        return _ABSENT if value is None else value / _GIB

    return find


def _memory_percent(record: Record) -> Any:
    used, limit = number(record.get("mem")), number(record.get("lim"))
    return 100 * used / limit if used is not None and limit else _ABSENT


def _listed(record: Record, name: str) -> list[Any]:
    value = record.get(name)
    return value if isinstance(value, list) else []


@dataclass(frozen=True)
class _Row:
    """Where a figure of cards or disks lies in a record."""

    of: str  # gpus or disks
    column: int
    unit: str
    top: float | None = None
    divide_by: float = 1.0

    def read(self, record: Record, place: int) -> Any:
        """Take one figure of one card or disk."""
        rows = _listed(record, self.of)
        row = rows[place] if place < len(rows) else None
        if not isinstance(row, list) or self.column >= len(row):
            return _ABSENT
        value = number(row[self.column])
        return _ABSENT if value is None else value / self.divide_by

    def name(self, seen: Measured, place: int) -> str:
        """Name a card by its number, a disk by its role and path."""
        if self.of == "gpus":
            return f"card {place}"
        disks = _listed(seen.newest, "disks")
        disk = disks[place] if place < len(disks) and isinstance(disks[place], dict) else {}
        return plain(str(disk.get("role") or f"disk {place}"))[:40]


_FIGURES: dict[str, tuple[str, Find, float | None]] = {
    "loss": ("", _figure("loss"), None),
    "mem": ("%", _memory_percent, 100.0),
    "mem-gib": ("GiB", _gib("mem"), None),
    "rss": ("GiB", _gib("rss"), None),
    "cpu": ("%", _figure("cpu"), None),
    "step": ("", _figure("step"), None),
    "step-rate": ("/s", _figure("rate"), None),
    "quiet": ("s", _figure("quiet"), None),
}
_ROWS = {
    "gpu": _Row("gpus", 0, "%", 100.0),
    "gpu-mem": _Row("gpus", 1, "GiB", divide_by=_GIB),
    "power": _Row("gpus", 2, "W"),
    "temperature": _Row("gpus", 3, "C"),
    "clock": _Row("gpus", 4, "MHz"),
    "disk": _Row("disks", 0, "%", 100.0),
    "disk-free": _Row("disks", 1, "GiB", divide_by=_GIB),
    "inodes": _Row("disks", 2, "%", 100.0),
}
NAMES = (*_FIGURES, *_ROWS)


def _there(seen: Measured) -> list[str]:
    """Name everything that could be drawn, the job's own metrics included."""
    metrics = {name for record in seen.records for name in record.get("m") or {} if isinstance(record.get("m"), dict)}
    known = [what for what in NAMES if next(_panel(seen, what), None) is not None]
    return known + sorted(plain(str(name)) for name in metrics)[:16]
