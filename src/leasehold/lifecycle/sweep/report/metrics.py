"""A cell's metrics: the numbers of its json, jsonl and csv artifacts, the last value of each."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MOST_BYTES = 16 << 20
_TAIL_BYTES = 1 << 20
_MOST_NUMBERS = 500
_DEEPEST = 6


def metrics_of(folder: Path, names: list[str]) -> dict[str, float]:
    """Read a cell's numbers; of two files with the same key the first counts, and files without metrics give none."""
    found: dict[str, float] = {}
    for name in names:
        for key, value in _numbers(folder / name):
            if len(found) < _MOST_NUMBERS:
                found.setdefault(key, value)
    return found


def _numbers(path: Path) -> Iterator[tuple[str, float]]:
    suffix = path.suffix.lower()
    try:
        if suffix == ".json" and path.stat().st_size <= _MOST_BYTES:
            yield from _flat(json.loads(path.read_bytes()), "", 0)
        elif suffix == ".jsonl":
            yield from _flat(_last_object(_tail(path)), "", 0)
        elif suffix == ".csv":
            yield from _last_row(path)
    except (OSError, ValueError, RecursionError, csv.Error):
        return


def _flat(value: Any, prefix: str, depth: int) -> Iterator[tuple[str, float]]:
    if isinstance(value, bool) or value is None or depth > _DEEPEST:
        return
    if isinstance(value, int | float) and math.isfinite(value) and abs(value) < 1e300:
        yield prefix or "value", float(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(item, f"{prefix}.{key}" if prefix else str(key), depth + 1)


def _tail(path: Path) -> str:
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        return file.read().decode("utf-8", "replace")


def _last_object(text: str) -> Any:
    for line in reversed(text.splitlines()):
        if line.strip():
            return json.loads(line)
    return None


def _last_row(path: Path) -> Iterator[tuple[str, float]]:
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        head = next(csv.reader(io.StringIO(file.readline())), [])
    last = next((line for line in reversed(_tail(path).splitlines()) if line.strip()), "")
    row = next(csv.reader(io.StringIO(last)), [])
    if len(head) != len(row) or head == row:
        return
    for key, word in zip(head, row, strict=True):
        try:
            number = float(word)
        except ValueError:
            continue
        if key and math.isfinite(number):
            yield key, number
