"""A sweep of uneven cells over 20 boxes: how near to the ideal makespan, with durations unknown and measured.

Boxes, sshds and this home share one machine, so that twenty launches at once cost here what they cost nowhere else.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.support.box_book import pasted
from tests.support.parts import find_program
from tests.support.sshd import SshBox

from .rounds import LEASE, Effort, user_environment
from .rows import Goal, MissingPart, Row

_GOAL = Goal("ratio", "≤", 1 / 0.95)
_SEED = 23  # the same cells in every run of this bench
_SHORTEST_S, _LONGEST_S = 2.0, 30.0
_RUN = "sleep $LEASE_PARAM_s && echo '{\"loss\": 1}' > $LEASE_OUT/metrics.json"


def measure(effort: Effort) -> Iterator[Row]:
    """Yield a row with durations that nobody knows, and one with those that the first sweep measured."""
    if find_program("sshd") is None:
        raise MissingPart("no sshd here (Debian: apt-get install openssh-server)")
    boxes, cells = effort.choose(full=20, quick=4), effort.choose(full=240, quick=24)
    with tempfile.TemporaryDirectory(prefix="lhb-") as place, ExitStack() as stack:
        fleet = [stack.enter_context(SshBox(Path(place) / f"box{number}")) for number in range(boxes)]
        yield from _Sweep(Path(place), fleet, durations(cells)).rows()


def durations(count: int) -> list[float]:
    """Draw uneven lengths: many short cells and a few long ones, as sweeps have them."""
    chance = random.Random(_SEED)
    drawn = (_SHORTEST_S + chance.expovariate(1 / 9.0) for _ in range(count))
    return [round(min(_LONGEST_S, seconds), 1) for seconds in drawn]


class _Sweep:
    """One project and one home, to whom the fleet belongs."""

    def __init__(self, place: Path, fleet: list[SshBox], lengths_s: list[float]) -> None:
        self._project = place / "project"
        self._project.mkdir()
        self._environment = user_environment(LEASEHOLD_HOME=str(place / "home"))
        self._fleet = fleet
        self._lengths_s = lengths_s
        self._on = ",".join(f"box{number}" for number in range(len(fleet)))
        for number, box in enumerate(fleet):
            self._lease("box", "add", f"box{number}", pasted(box))

    def rows(self) -> Iterator[Row]:
        """Yield what each way took beside the ideal: no schedule ends before the sum over all boxes, or the longest."""
        ideal_s = max(sum(self._lengths_s) / len(self._fleet), max(self._lengths_s))
        what = f"{len(self._lengths_s)} cells on {len(self._fleet)} boxes"
        for name in ("durations unknown", "measured before"):
            took_s, home_s = self._run()
            goal = _GOAL if name == "measured before" else None
            yield Row("fleet_sweep", f"{what}, {name}", "s", [took_s], [ideal_s], "ideal", goal)
            yield Row("fleet_sweep", f"{what}, {name}, all home", "s", [home_s], [ideal_s], "ideal")

    def _run(self) -> tuple[float, float]:
        """Run the sweep once more; return when the last cell had ended, and when everything was home."""
        cells = [{"name": f"c{number:03d}", "s": seconds} for number, seconds in enumerate(self._lengths_s)]
        random.Random(_SEED).shuffle(cells)
        job = {"name": "fleet", "run": _RUN, "artifacts": ["metrics.json"], "cells": {"list": cells}}
        (self._project / "lease.yaml").write_text(json.dumps(job))
        begun = time.time()
        self._lease("run", "--on", self._on, "--again")
        home_s = time.time() - begun
        ends = [end for box in self._fleet for end in _ends(box, begun)]
        if len(ends) != len(cells):
            raise RuntimeError(f"{len(ends)} cells ended, of {len(cells)}")
        return max(ends) - begun, home_s

    def _lease(self, *words: str) -> None:
        done = subprocess.run(
            [LEASE, *words], cwd=self._project, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"lease {' '.join(words[:2])} exited with {done.returncode}: {done.stderr[-2000:]}")
        (self._project / "said").write_text(done.stderr)


def _ends(box: SshBox, since: float) -> list[float]:
    """Read when each trainer of the newest sweep on a box ended, by the clock that this machine shares with it."""
    found = []
    for journal in (box.home / ".leasehold" / "active").glob("fleet*/journal.jsonl"):
        events = [json.loads(line) for line in journal.read_text().splitlines()]
        if events and events[0]["t"] >= since:
            found += [float(e.get("at", e["t"])) for e in events if e["k"] == "attempt_ended" and e.get("code") == 0]
    return found
