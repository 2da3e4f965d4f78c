"""Metrics that a cell printed, read from the log that came home: for code that writes no file with numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from leasehold.kit.text.progress import ProgressReader

from .learning_curves import Point

_MOST_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20
_MOST_POINTS = 2000

LOSS = "loss"


class _Courses:
    """Collects every number of a log."""

    def __init__(self) -> None:
        self.points: dict[str, list[Point]] = {}

    def loss(self, value: float, step: int | None) -> None:
        self.metrics({LOSS: value}, step)

    def metrics(self, values: Mapping[str, float], step: int | None) -> None:
        for name, value in values.items():
            course = self.points.setdefault(name, [])
            course.append((float(len(course) if step is None else step), value))


def numbers_of(log: Path | None, pattern: str) -> dict[str, float]:
    """Read the last value of each number that a cell printed; empty where there is none, or its log is not at home."""
    if log is None:
        return {}
    reader = ProgressReader(pattern)
    _feed(reader, log)
    seen = reader.now
    return {**({LOSS: seen.loss} if seen.loss is not None else {}), **seen.metrics}


def course_of(log: Path | None, pattern: str, metric: str) -> list[Point]:
    """Read a number's curve over its steps, thinned evenly; one point is not a curve."""
    if log is None:
        return []
    heard = _Courses()
    _feed(ProgressReader(pattern, heard), log)
    points = heard.points.get(metric, [])
    every = -(-len(points) // _MOST_POINTS) or 1
    return points[::every] if len(points) > 1 else []


def newest_log(export: Path, cell: str) -> Path | None:
    """Find the log of a cell's last attempt in the evidence."""
    found = sorted((export / "evidence" / cell).glob("attempt-*/log"))
    return found[-1] if found else None


def _feed(reader: ProgressReader, log: Path) -> None:
    try:
        with open(log, "rb") as file:
            file.seek(max(0, file.seek(0, 2) - _MOST_BYTES))
            while piece := file.read(_PIECE_BYTES):
                reader.feed(piece.decode("utf-8", "replace"))
    except OSError:
        return
    reader.feed("\n")
