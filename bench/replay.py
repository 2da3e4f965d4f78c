"""Reading a journal of 100,000 events and folding it, against the bare JSON parse of the same lines."""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from leasehold.kit.files import journal
from leasehold.kit.run.run_state import RunState, fold

from .rounds import Effort, interleave
from .rows import Goal, Row

_EVENTS = 100_000


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the whole replay beside a loop of json.loads."""
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as place:
        path = Path(place) / "journal.jsonl"
        _write(path)
        ways = {
            "ours": lambda: _timed(lambda: _replay(str(path))),
            "json": lambda: _timed(lambda: _parse(path)),
        }
        taken = interleave(ways, effort.choose(full=15, quick=3))
    yield Row(
        "replay", f"{_EVENTS:,} events read and folded", "s", taken["ours"], taken["json"], "json.loads loop",
        Goal("ours", "<", 1.0),
    )  # fmt: skip


def _timed(work: Callable[[], Any]) -> float:
    gc.collect()
    begun = time.perf_counter()
    kept = work()
    taken = time.perf_counter() - begun
    del kept
    return taken


def _replay(path: str) -> RunState:
    events, _ = journal.read_from(path, 0)
    run = fold(events)
    if run.seq != _EVENTS:
        raise RuntimeError(f"only {run.seq} of {_EVENTS} events were read")
    return run


def _parse(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return [json.loads(line) for line in file]


def _write(path: Path) -> None:
    """Spell the life of a run that is preempted over and over, as Journal.append would."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(1, _EVENTS + 1):
            event = {"n": number, "t": 1.7e9 + number, **_event(number)}
            file.write(json.dumps(event, separators=(",", ":"), ensure_ascii=False) + "\n")


def _event(number: int) -> dict[str, Any]:
    if number == 1:
        who = {"pid": 4242, "started": "123456", "boot": "0f8e36a2-7d0b-4c6f-9d3e-6a1b2c3d4e5f"}
        return {"k": "run_opened", "plan_sha256": "0" * 64, "cells": ["main"], "detach": "tmux", **who}
    attempt, step = divmod(number - 2, 4)
    cell = {"cell": "main", "attempt": attempt + 1}
    how = {"code": None, "signal": 9, "by": "keeper", "cpu_s": 81.25, "max_rss_kib": 921600, "at": 1.7e9 + number}
    steps: list[dict[str, Any]] = [
        {"k": "attempt_starting", **cell},
        {"k": "attempt_started", **cell, "pid": 4300 + attempt, "started": "123999", "at": 1.7e9 + number},
        {"k": "attempt_ended", **cell, **how},
        {"k": "cell_pending", "cell": "main", "why": "ended by signal 9; same command again, from its last checkpoint"},
    ]
    return steps[step]
