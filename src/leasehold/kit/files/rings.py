"""Fixed-size ring files of samples: read on the box, and at home from a copy."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

Record = Dict[str, Any]

WIDTH = 512
_READ_BYTES = 64 * WIDTH


class Level(NamedTuple):
    """The interval between the lines of a ring, and its capacity."""

    every_s: int
    slots: int
    name: str


LEVELS = (  # an hour, a day, a month: at most 3.4 MB
    Level(5, 720, "5s.jsonl"),
    Level(60, 1440, "1min.jsonl"),
    Level(600, 4464, "10min.jsonl"),
)


def read_window(folder: str, since_unix: float, until_unix: float) -> Iterator[Record]:
    """Yield records of a period, oldest first: each moment from the finest ring that still has it."""
    finer_from = until_unix + 1.0
    kept: List[List[Record]] = []
    for level in LEVELS:
        records = [one for one in read_ring(os.path.join(folder, level.name)) if since_unix <= one["t"] < finer_from]
        kept.append(records)
        if records:
            finer_from = records[0]["t"]
    for records in reversed(kept):
        yield from records


def read_ring(path: str) -> List[Record]:
    """Read the whole lines of one ring in the order of writing."""
    found = [record for _, record in slots_of(path) if record is not None]
    return sorted(found, key=lambda record: int(record["n"]))


def slots_of(path: str) -> Iterator[Any]:
    """Yield (place, record) of a ring; None for an empty or torn slot."""
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below; absent is an empty ring
    except OSError:
        return
    with file:
        place = 0
        while True:
            block = file.read(_READ_BYTES)
            for start in range(0, len(block), WIDTH):
                yield place, _parsed(block[start : start + WIDTH])
                place += 1
            if len(block) < _READ_BYTES:
                return


def _parsed(slot: bytes) -> Optional[Record]:
    try:
        record = json.loads(slot.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    good = isinstance(record, dict) and is_number(record.get("t")) and isinstance(record.get("n"), int)
    return record if good else None


def is_number(value: Any) -> bool:
    """Return whether a reading is a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
