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


class Added(NamedTuple):
    """By how many percent the trainer is slower, one number a round: by its own processor time, and by the clock."""

    own: list[float]
    clock: list[float]


class _Pace(NamedTuple):
    per_cpu_s: float
    per_s: float
    beside_cpu_s: float  # what those beside it used, for each second of the clock


def added_percent(beside: Sequence[int], trainer: int, cpu_s: Callable[[int], float], effort: Effort) -> Added:
    """Compare the trainer's pace with and without them, slice by slice."""
    slice_s, own, clock = effort.choose(full=4, quick=2), [], []
    try:
        for _ in range(effort.choose(full=30, quick=5)):
            _signal(beside, signal.SIGSTOP)
            alone = _pace(trainer, beside, cpu_s, slice_s)
            _signal(beside, signal.SIGCONT)
            with_us = _pace(trainer, beside, cpu_s, slice_s)
            # On the core that it fully uses, what we take is added to what our traffic costs its caches.
            own.append(100 * (alone.per_cpu_s / with_us.per_cpu_s - 1 + with_us.beside_cpu_s))
            clock.append(100 * (alone.per_s / with_us.per_s - 1))
    finally:
        _signal(beside, signal.SIGCONT)
    return Added(own, clock)


def _pace(trainer: int, beside: Sequence[int], cpu_s: Callable[[int], float], slice_s: float) -> _Pace:
    before, cpu_before, ours_before, begun = _count(trainer), cpu_s(trainer), sum(map(cpu_s, beside)), time.monotonic()
    time.sleep(slice_s)
    done, took_s = _count(trainer) - before, time.monotonic() - begun
    used_s, ours_s = cpu_s(trainer) - cpu_before, sum(map(cpu_s, beside)) - ours_before
    return _Pace(done / used_s, done / took_s, ours_s / took_s)


def _count(trainer: int) -> int:
    number: int = struct.unpack("<q", Path(f"/proc/{trainer}/cwd/count").read_bytes())[0]
    return number


def _signal(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
