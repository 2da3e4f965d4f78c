"""Fixed-size ring files of samples: three rings of JSON lines, each line padded to one width.

A ring grows to its number of slots and then overwrites the oldest: a full disk stops nothing that already has its room.
A torn line does not parse and is left out; order comes from the number in each line, not from its position.
"""

from __future__ import annotations

import errno
import json
import os
from typing import Any, Callable, Dict, List, Sequence

from leasehold.kit.files.rings import LEVELS, WIDTH, Record, is_number, read_ring, slots_of

_SPARE = ("m", "epoch", "cpu", "quiet", "c")  # dropped, in this order, from a line that does not fit


class Series:
    """The writing end; opening it finds where the last writer was."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        self._rings = [Ring(os.path.join(folder, level.name), level.slots) for level in LEVELS]
        self._waiting: List[List[Record]] = [[] for _ in LEVELS]  # of the level below, until their bucket is complete
        self._remember(folder)

    def add(self, record: Record) -> None:
        """Append one reading, and the coarser ones that it completes."""
        self._rings[0].append(record)
        self._pass_up(1, record)

    def close(self) -> None:
        """Close the files."""
        for ring in self._rings:
            ring.close()

    def _pass_up(self, place: int, record: Record) -> None:
        if place == len(LEVELS):
            return
        waiting, every_s = self._waiting[place], LEVELS[place].every_s
        if waiting and int(waiting[0]["t"]) // every_s != int(record["t"]) // every_s:
            merged = merge(waiting)
            waiting.clear()
            self._rings[place].append(merged)
            self._pass_up(place + 1, merged)
        waiting.append(record)

    def _remember(self, folder: str) -> None:
        """Restore the buckets that a killed writer left open."""
        for place in range(1, len(LEVELS)):
            done = max((one["t"] for one in read_ring(os.path.join(folder, LEVELS[place].name))), default=0)
            bucket = int(done) // LEVELS[place].every_s
            for record in read_ring(os.path.join(folder, LEVELS[place - 1].name)):
                if int(record["t"]) // LEVELS[place].every_s > bucket:
                    self._waiting[place].append(record)
            newest = self._waiting[place][-1:]
            same = [one for one in self._waiting[place] if newest and _same(one, newest[0], LEVELS[place].every_s)]
            self._waiting[place] = same


class Ring:
    """One file of slots."""

    def __init__(self, path: str, slots: int) -> None:
        self._slots = slots
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        self._number, self._next = 0, 0
        for place, record in slots_of(path):
            if record is not None and record["n"] > self._number:
                self._number, self._next = record["n"], place + 1

    def append(self, record: Record) -> None:
        """Append the record to the next slot; without room for another, begin again at the first."""
        self._number += 1
        line = spell(dict({"n": self._number}, **record))
        place = self._next % self._slots
        try:
            self._write(line, place)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not place:
                raise
            place = 0
            self._write(line, place)
        self._next = place + 1

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _write(self, line: bytes, place: int) -> None:
        if os.pwrite(self._fd, line, place * WIDTH) != WIDTH:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def spell(record: Record) -> bytes:
    """Write a record in exactly one width; drop what does not fit, least needed first."""
    left = dict(record)
    for name in ("", *_SPARE):
        left.pop(name, None)
        text = _dump(left)
        if len(text) < WIDTH:
            return text.ljust(WIDTH - 1) + b"\n"
    while left.get("gpus") and len(_dump(left)) >= WIDTH:
        left["gpus"] = left["gpus"][:-1]
    while left.get("disks") and len(_dump(left)) >= WIDTH:
        left["disks"] = left["disks"][:-1]
    return _dump(left)[: WIDTH - 1].ljust(WIDTH - 1) + b"\n"


def merge(records: Sequence[Record]) -> Record:
    """Merge several records into one: means, peaks or the newest, as each figure needs."""
    merged: Record = {}
    for name in {name for record in records for name in record if name != "n"}:
        values = [record[name] for record in records if name in record]
        merged[name] = _RULES.get(name, _last)(values)
    return merged


def _same(one: Record, other: Record, every_s: int) -> bool:
    return int(one["t"]) // every_s == int(other["t"]) // every_s


def _dump(record: Record) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode("ascii")


def _last(values: List[Any]) -> Any:
    return values[-1]


def _mean(values: List[Any]) -> Any:
    known = [value for value in values if is_number(value)]
    return _short(sum(known) / len(known)) if known else None


def _peak(values: List[Any]) -> Any:
    known = [value for value in values if is_number(value)]
    return max(known) if known else None


def _union(values: List[Any]) -> Any:
    bits = 0
    for value in values:
        bits |= value if isinstance(value, int) else 0
    return bits


def _names(values: List[Any]) -> Any:
    return sorted({name for value in values if isinstance(value, list) for name in value})


def _short(value: float) -> float:
    return float("%.6g" % value)


def _columns(*rules: Callable[[List[Any]], Any]) -> Callable[[List[Any]], Any]:
    """Merge rows of rows (cards, disks) by a rule for each column."""

    def of(values: List[Any]) -> Any:
        rows: List[Any] = []
        for place in range(max(len(value) for value in values)):
            same = [value[place] for value in values if place < len(value)]
            rows.append([rule([row[at] for row in same if at < len(row)]) for at, rule in enumerate(rules)])
        return rows

    return of


_RULES: Dict[str, Callable[[List[Any]], Any]] = {
    "loss": _mean,
    "rate": _mean,
    "cpu": _mean,
    "mem": _peak,
    "rss": _peak,
    "quiet": _peak,
    "a": _names,
    "disks": _columns(_peak, _last, _peak),  # used %, free MiB, used inodes %
    "gpus": _columns(_mean, _peak, _mean, _peak, _mean, _union),  # util %, MiB, W, C, MHz, reasons
}
