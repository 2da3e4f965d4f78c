"""A real Slurm cluster with a meter, and three ways to run the same cells on it: ours, a bare array, submitit."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.support.slurm_bed import SlurmCluster

from .meter import Meter
from .rounds import LEASE, user_environment

_WAIT_S = 600.0
_RUN = """printf '{"x": %s}' "$LEASE_PARAM_x" > "$LEASE_OUT/result.json\""""
_BARE = """#!/bin/sh
mkdir "%(out)s/$SLURM_ARRAY_TASK_ID"
printf '{"x": %%s}' "$SLURM_ARRAY_TASK_ID" > "%(out)s/$SLURM_ARRAY_TASK_ID/result.json"
"""


class Spent(NamedTuple):
    """Seconds until every result was there and right, and processor seconds until all was quiet again."""

    clock_s: float
    processor_s: float


@dataclass(frozen=True)
class Bed:
    """The cluster, where things may be written, and who counts."""

    place: Path
    slurm: SlurmCluster
    meter: Meter
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def folder(self, name: str) -> Path:
        """Make a new folder."""
        return Path(tempfile.mkdtemp(prefix=name + "-", dir=self.place))

    def ours(self, count: int) -> Spent:
        """Run a new sweep from nothing to verified results at home; the box has our parcel already."""
        project = self.project(count)
        return self._spent(lambda: self._ours(project, count))

    def bare(self, count: int) -> Spent:
        """Submit an array whose tasks do the same, and look until every file is there."""
        out = self.folder("bare")
        return self._spent(lambda: self._bare(out, count))

    def submitit(self, python: str, count: int) -> Spent:
        """Have submitit map a function that does the same."""
        argv = [python, str(Path(__file__).with_name("submitit_cells.py")), str(self.folder("peer")), str(count)]
        return self._spent(lambda: self.command(argv, self.place))

    def project(self, count: int, seeds: int = 1) -> Path:
        """Write a project that has so many cells, like no other before it."""
        folder = self.folder("project")
        job = {
            "name": f"cells-{next(self.numbers)}",  # beside a live run of the same name another code would be refused
            "run": _RUN,
            "cells": {"grid": {"x": list(range(count // seeds))}, "seeds": seeds},
            "artifacts": {"result.json": "json"},
        }
        (folder / "lease.yaml").write_text(json.dumps(job))
        (folder / "nonce.txt").write_text(folder.name)
        return folder

    def lease(self, project: Path, *words: str) -> str:
        """Run `lease` in a project; return what it printed."""
        return self.command([LEASE, *words], project)

    @property
    def environment(self) -> dict[str, str]:
        """What somebody on the login node has."""
        slurm = {key: self.slurm.environ[key] for key in ("SLURM_CONF", "TZ")}
        return user_environment(LEASEHOLD_HOME=str(self.place / "home"), **slurm)

    def command(self, argv: Sequence[str], folder: Path, expect: int = 0) -> str:
        """Run a command as somebody on the login node; return what it printed."""
        done = subprocess.run(
            argv, cwd=folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=_WAIT_S, check=False,
        )  # fmt: skip
        if done.returncode != expect:
            print(done.stdout[-2000:], done.stderr[-4000:], file=sys.stderr)
            raise RuntimeError(f"{argv[0]} exited with {done.returncode}")
        return done.stdout

    def quiet(self) -> None:
        """Wait until the cluster has nothing left to do."""
        wait_for(lambda: not self.slurm.run("squeue", "-h", "-o", "%i"), "an empty queue", pause_s=0.2)

    def _spent(self, act: Callable[[], object]) -> Spent:
        before_s, begun = self.meter.used_s(), time.perf_counter()
        act()
        clock_s = time.perf_counter() - begun
        self.quiet()
        return Spent(clock_s, self.meter.used_s() - before_s)

    def _ours(self, project: Path, count: int) -> None:
        self.lease(project, "run", "--on", "cluster", "--json")
        found = sorted(
            int(json.loads(path.read_text())["x"])
            for path in project.glob("lease-results/export/*/cells/*/result.json")
        )
        _require(found == list(range(count)))

    def _bare(self, out: Path, count: int) -> None:
        script = out / "array.sh"
        script.write_text(_BARE % {"out": out})
        self.command(["sbatch", "--parsable", f"--array=0-{count - 1}", "--output=/dev/null", str(script)], out)
        waiting = [out / str(number) / "result.json" for number in reversed(range(count))]
        wait_for(lambda: _gone(waiting), "every result", pause_s=0.05)
        found = [json.loads((out / str(number) / "result.json").read_text()) for number in range(count)]
        _require(found == [{"x": x} for x in range(count)])


def _gone(waiting: list[Path]) -> bool:
    """Whether every file is there and has been written; those that are, are looked at no more."""
    while waiting and waiting[-1].exists() and waiting[-1].stat().st_size:
        waiting.pop()
    return not waiting


def wait_for(ready: Callable[[], bool], what: str, pause_s: float) -> None:
    """Look until it is true."""
    deadline = time.monotonic() + _WAIT_S
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come within {_WAIT_S:.0f} s")
        time.sleep(pause_s)


def _require(right: bool) -> None:
    if not right:
        raise RuntimeError("the results are not those of the cells")
