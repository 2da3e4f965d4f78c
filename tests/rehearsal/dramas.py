"""The lives that the kill matrix lives through, and how it learns which events there are: by living each once."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.support.beds import local_bed
from tests.support.lives import (
    Lease,
    Life,
    check_home,
    check_journal,
    check_nobody_left,
    check_trainers,
    eventually,
    kill,
    kill_group,
)

Command = Callable[[Life, str], Lease]  # the second argument is LEASEHOLD_PAUSE
JOB = {"smoke": "true"}
_QUIET_S = 0.5
_LIMIT_S = 60.0


def run(life: Life, pause: str = "") -> Lease:
    return life.run(pause=pause)


def run_rehearsed(life: Life, pause: str = "") -> Lease:
    return life.run("--rehearse", pause=pause)


def take_down(life: Life, pause: str = "") -> Lease:
    return life.lease("down", "life", "--rehearsal", pause=pause)


def check_finished(life: Life) -> None:
    check_journal(life)
    check_trainers(life)
    check_home(life)
    check_nobody_left(life)


def check_taken_down(life: Life) -> None:
    """The box is gone once and for all, and what it made is home."""
    assert not life.bed.root.exists()
    assert list(life.bed.root.parent.glob("*.deleting-*")) == []
    check_trainers(life)
    check_home(life)
    kinds = life.ledger()
    assert (kinds.count("verb_done"), kinds.count("lease_closed")) == (1, 1)
    check_nobody_left(life)


@dataclass(frozen=True)
class Drama:
    """A life with one thing going wrong in it: what is typed, what goes wrong, what must be true in the end."""

    name: str
    commands: tuple[Command, ...] = (run,)
    provoke: Callable[[Life], object] | None = None  # while a trainer is held in mid-life
    fails_once: bool = False
    tries: int = 1  # how often the last command may have to be typed until it exits with 0
    check: Callable[[Life], None] = check_finished


DRAMAS = {
    drama.name: drama
    for drama in (
        Drama("plain"),
        Drama("caretaker-dies", provoke=lambda life: kill(life.caretaker())),
        Drama("trainer-dies", provoke=lambda life: kill_group(life.trainer())),
        Drama("fails", commands=(run, run), fails_once=True, tries=2),
        Drama(
            "stopped",
            commands=(run, run),
            provoke=lambda life: life.lease("stop", life.run_id, "--grace", "5"),
            tries=2,
        ),
        Drama("taken-down", commands=(run_rehearsed, take_down), check=check_taken_down),
    )
}

# What no source change may quietly lose: a kind that vanishes from a life vanishes from the matrix.
FLOOR = {
    "plain": {
        "run_opened", "attempt_starting", "attempt_started", "attempt_ended", "cell_finished", "run_finished",
        "home.smoke_passed", "home.lease_opened", "home.run_planned", "home.run_seen", "home.detach_proven",
        "home.manifest_taken", "home.receipt_written",
    },
    "caretaker-dies": {"caretaker_started"},
    "trainer-dies": {"cell_pending"},
    "fails": {"cell_failed", "run_failed", "resumed"},
    "stopped": {"stop_requested", "run_stopped"},
    "taken-down": {"home.intent_recorded", "home.verb_done", "home.lease_closed"},
}  # fmt: skip


@dataclass(frozen=True)
class Moment:
    """An event of a drama, and whether a trainer is held in mid-life when it comes."""

    drama: str
    event: str
    held: bool


def moments() -> list[Moment]:
    """Live every drama once and list its events, each in the first drama that has it; once a test session."""
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if not session:
        return _discover()
    place = Path(tempfile.gettempdir(), f"leasehold-moments-{session}")
    with place.open("a+") as file:  # every worker must collect the same cases: the first one looks
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = file.read()
        if known:
            place.unlink(missing_ok=True) if os.environ.get("PYTEST_XDIST_WORKER_COUNT") == "2" else None
            return [Moment(*item) for item in json.loads(known)]
        found = _discover()
        file.write(json.dumps([[m.drama, m.event, m.held] for m in found]))
        return found


def _discover() -> list[Moment]:
    with ThreadPoolExecutor(len(DRAMAS)) as pool:
        lived = dict(zip(DRAMAS, pool.map(live_once, DRAMAS.values()), strict=True))
    seen: set[str] = set()
    found = []
    for name in DRAMAS:
        found += [moment for moment in lived[name] if moment.event not in seen]
        seen |= {moment.event for moment in found}
    return found
