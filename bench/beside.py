"""What a busy trainer loses to those beside it: they are stopped and let go in turn, and its pace is compared.

Stopped ones catch up, once let go, on what fell due meanwhile: their cost falls on half the time, and what is measured
here is up to twice what it is in earnest.
"""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .rounds import Effort


class Beside(NamedTuple):
    """Seconds that a million rounds of the trainer take, one number a slice: of its processor, and of the clock."""

    own: list[float]
    clock: list[float]


class Compared(NamedTuple):
    """With us beside it, and with us stopped."""

    with_us: Beside
    alone: Beside


class _Pace(NamedTuple):
    own_s: float
    clock_s: float
    ours_s: float  # what those beside it used meanwhile, in the same measure


def compare(beside: Sequence[int], trainer: int, cpu_s: Callable[[int], float], effort: Effort) -> Compared:
    """Take the trainer's pace with and without them, slice by slice; each slice is long enough for every reading."""
    slice_s = effort.choose(full=15, quick=5)
    found = Compared(Beside([], []), Beside([], []))
    try:
        for _ in range(effort.choose(full=12, quick=4)):
            _signal(beside, signal.SIGSTOP)
            alone = _pace(trainer, beside, cpu_s, slice_s)
            _signal(beside, signal.SIGCONT)
            with_us = _pace(trainer, beside, cpu_s, slice_s)
            # On the core that it fully uses, what we take is added to what our traffic costs its caches.
            found.with_us.own.append(with_us.own_s + with_us.ours_s)
            found.alone.own.append(alone.own_s)
            found.with_us.clock.append(with_us.clock_s)
            found.alone.clock.append(alone.clock_s)
    finally:
        _signal(beside, signal.SIGCONT)
    return found


def _pace(trainer: int, beside: Sequence[int], cpu_s: Callable[[int], float], slice_s: float) -> _Pace:
    before, cpu_before, ours_before, begun = _count(trainer), cpu_s(trainer), sum(map(cpu_s, beside)), time.monotonic()
    time.sleep(slice_s)
    done, took_s = _count(trainer) - before, time.monotonic() - begun
    used_s, ours_s = cpu_s(trainer) - cpu_before, sum(map(cpu_s, beside)) - ours_before
    millions = done / 1e6
    return _Pace(used_s / millions, took_s / millions, ours_s / millions)


def _count(trainer: int) -> int:
    number: int = struct.unpack("<q", Path(f"/proc/{trainer}/cwd/count").read_bytes())[0]
    return number


def _signal(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
