"""Build curves from the box's series: nothing in it is trusted, every figure may be missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from leasehold.errors import UserError
from leasehold.kit.text.safe_text import plain
from leasehold.model.run.curve import Curve, Point
from leasehold.model.values.units import number

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import SeriesPart
    from leasehold.platforms.contract import View


DEFAULT = ("loss", "gpu", "mem", "disk", "step-rate")
_MOST_RECORDS = 20_000
_MOST_LINES = 16  # cards or disks in one panel
_GIB = 1024.0  # the series counts in MiB

Record = Mapping[str, Any]
Find = Callable[[Record], Any]


@dataclass(frozen=True)
class Measured:
    """A box's measurements: its records, oldest first, its newest sample, and its own clock."""

    now_unix: float = 0.0
    records: Sequence[Record] = ()
    newest: Record = field(default_factory=dict)
    alarms: tuple[str, ...] = ()


def read_series(engine: View, run: str, last_s: float) -> Measured:
    """Ask the box for a window of its series."""
    records: list[Record] = []
    last: SeriesPart = {}
    for answer in engine.observe.series(run, int(last_s)):
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
    """Build the requested curves; without a request, those usual figures that were measured."""
    found = [curve for what in wanted or DEFAULT for curve in _panel(seen, what)]
    if not wanted:
        found = [*_beside_loss(seen, found), *(curve for curve in found if curve.panel != "loss")]
        found = [curve for curve in found if _says_something(curve)] or found
    missing = [what for what in wanted if not any(curve.panel == what for curve in found)]
    if missing and not found:
        raise UserError(
            "plot.nothing",
            f"nothing measured for {', '.join(missing)}",
            seen=f"{len(seen.records)} reading{'s' * (len(seen.records) != 1)} in this window",
            hint=f"there is: {', '.join(_there(seen)) or 'nothing yet; a reading comes every 5 seconds'}",
        )
    return found


def _panel(seen: Measured, what: str) -> Iterator[Curve]:
    if what in _ROWS:
        yield from _rows(seen, what, _ROWS[what])
        return
    unit, find, top = _FIGURES.get(what, ("", lambda record: _metric(record, what), None))
    if what in _FIGURES and what not in _OF_TRAINING:
        points = _points(seen.records, find)
        if any(value is not None for _, value in points):
            yield Curve(what, what, unit, points, top, TITLES.get(what, what))
        return
    for cell, records in _by_cell(seen.records):
        points = _points(records, find)
        if any(value is not None for _, value in points):
            stepped = what not in ("step", "step-rate")
            steps = tuple(number(record.get("step")) for record in records if find(record) is not _ABSENT)
            yield Curve(what, cell or what, unit, points, top, TITLES.get(what, what), steps if stepped else ())


def _by_cell(records: Sequence[Record]) -> list[tuple[str, list[Record]]]:
    """Split the records of a sweep by cell: one cell's loss does not continue another's."""
    found: dict[str, list[Record]] = {}
    for record in records:
        cell = record.get("c")
        found.setdefault(plain(cell)[:100] if isinstance(cell, str) else "", []).append(record)
    if len(found) > 1:
        found.pop("", None)  # between two cells nothing trains
    return list(found.items())


def _beside_loss(seen: Measured, found: Sequence[Curve]) -> list[Curve]:
    """Add validation losses to the panel of the training's loss, one point for each evaluation."""
    mine = [curve for curve in found if curve.panel == "loss"]
    names = {name for record in seen.records if isinstance(record.get("m"), dict) for name in record["m"]}
    for name in sorted(str(name) for name in names if _VAL_LOSS.search(str(name))):
        for curve in _panel(seen, name):
            label = name if curve.name == name else f"{curve.name} {name}"
            mine.append(_changes(replace(curve, panel="loss", name=plain(label)[:100], title=TITLES["loss"])))
    return mine


def _changes(curve: Curve) -> Curve:
    """Keep only readings with a new value: between two evaluations the last one is just repeated."""
    kept = [place for place, (_, value) in enumerate(curve.points) if not place or value != curve.points[place - 1][1]]
    steps = tuple(curve.steps[place] for place in kept) if curve.steps else ()
    return replace(curve, points=tuple(curve.points[place] for place in kept), steps=steps)


def _says_something(curve: Curve) -> bool:
    """Return whether a curve is worth showing unasked: one that was always zero is not."""
    return any(value for _, value in curve.points)


def _rows(seen: Measured, what: str, row: _Row) -> Iterator[Curve]:
    """Yield one curve for each card or disk."""
    widest = max((len(_listed(record, row.of)) for record in seen.records), default=0)
    for place in range(min(widest, _MOST_LINES)):
        points = _points(seen.records, lambda record, at=place: row.read(record, at))  # type: ignore[misc]
        if any(value is not None for _, value in points):
            yield Curve(what, row.name(seen, place), row.unit, points, row.top, TITLES.get(what, what))


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
    """The place of a figure of cards or disks in a record."""

    of: str  # gpus or disks
    column: int
    unit: str
    top: float | None = None
    divide_by: float = 1.0

    def read(self, record: Record, place: int) -> Any:
        """Return one figure of one card or disk."""
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
TITLES = {
    "loss": "loss",
    "mem": "memory used, of the box's limit",
    "mem-gib": "memory used",
    "rss": "memory of the training processes",
    "cpu": "processor time of the training, 100 % is one core",
    "step": "step",
    "step-rate": "steps per second",
    "quiet": "seconds since the log last grew",
    "gpu": "GPU utilisation",
    "gpu-mem": "GPU memory used",
    "power": "GPU power",
    "temperature": "GPU temperature",
    "clock": "GPU clock",
    "disk": "disk used",
    "disk-free": "disk free",
    "inodes": "inodes used",
}
_OF_TRAINING = ("loss", "step", "step-rate")
_VAL_LOSS = re.compile(
    r"(?:^|[/_ .-])(?:val|valid|validation|eval|test|dev)[/_ .-]?(?:\w*[/_ .-])?loss\Z", re.IGNORECASE
)


def _there(seen: Measured) -> list[str]:
    """List everything that could be drawn, including the job's own metrics."""
    metrics = {name for record in seen.records for name in record.get("m") or {} if isinstance(record.get("m"), dict)}
    known = [what for what in NAMES if next(_panel(seen, what), None) is not None]
    return known + sorted(plain(str(name)) for name in metrics)[:16]
