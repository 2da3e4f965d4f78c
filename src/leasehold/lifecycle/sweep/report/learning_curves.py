"""Learning curves at home: a metric over steps from a cell's jsonl and csv artifacts."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_STEPS = ("step", "global_step", "iteration", "iter", "epoch")
_MOST_BYTES = 64 << 20
_MOST_POINTS = 2000  # points of one curve on a picture; more are thinned evenly

Point = tuple[float, float]


def series_of(folder: Path, names: list[str], metric: str) -> list[Point]:
    """Read a metric's curve from the first file that has one; a single row is not a curve."""
    for name in names:
        points = _thinned(list(_points(folder / name, metric)))
        if len(points) > 1:
            return points
    return []


def _points(path: Path, metric: str) -> Iterator[Point]:
    for number, row in enumerate(_rows(path)):
        value = _number(row.get(metric))
        if value is not None:
            step = next((found for key in _STEPS if (found := _number(row.get(key))) is not None), None)
            yield (float(number) if step is None else step), value


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    suffix = path.suffix.lower()
    try:
        if suffix not in (".jsonl", ".csv") or path.stat().st_size > _MOST_BYTES:
            return
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            if suffix == ".csv":
                yield from csv.DictReader(file)
                return
            for line in file:
                row = json.loads(line) if line.strip() else None
                if isinstance(row, dict):
                    yield row
    except (OSError, ValueError, RecursionError, csv.Error):
        return


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _thinned(points: list[Point]) -> list[Point]:
    step = -(-len(points) // _MOST_POINTS) or 1
    return points[::step] if len(points) <= _MOST_POINTS * step and step > 1 else points
