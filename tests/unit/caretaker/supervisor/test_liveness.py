"""A trainer that stands still is told of once, and again when it moves; a clock that is set changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import pytest

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.supervisor import liveness as module
from leasehold.caretaker.supervisor.liveness import Pulse
from leasehold.kit.run.processes import look
from leasehold.kit.run.run_state import RunState, fold
from tests.unit.caretaker.run_folders import make, plan_of, put

Trainer = "subprocess.Popen[bytes]"


class Bench:
    """A pulse over a real process, with a clock and a journal of the test's own."""

    def __init__(self, folder: RunFolder, pid: int) -> None:
        self.now_s = 1000.0
        self.noted: List[Dict[str, Any]] = []
        self.run: RunState = fold([{"n": 1, "t": 1.0, "k": "run_opened", "cells": ["main"]}])
        self.folder = folder
        seen = look(pid)
        os.makedirs(folder.attempt("main", 1))
        self.note("attempt_starting", cell="main", attempt=1)
        self.note("attempt_started", cell="main", attempt=1, pid=pid, started=seen.started if seen else "")
        self.log("first line\n")
        self.pulse = Pulse(folder, plan_of(folder), self.note, lambda: self.now_s)

    def note(self, kind: str, **data: Any) -> None:
        event = {"n": len(self.noted) + 2, "t": 1.0, "k": kind, **data}
        self.noted.append(event)
        fold([event], into=self.run)

    def log(self, text: str) -> None:
        with open(os.path.join(self.folder.attempt("main", 1), "log"), "a") as file:
            file.write(text)

    def pass_s(self, seconds: float) -> None:
        until = self.now_s + seconds
        while self.now_s < until:
            self.now_s += 5.0
            self.pulse.step("main", self.run.cells["main"])

    def kinds(self) -> List[str]:
        return [event["k"] for event in self.noted][2:]


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    yield child
    child.kill()
    child.wait()


def bench_of(tmp_path: Path, pid: int, **job: Any) -> Bench:
    return Bench(make(tmp_path, ["a"], **job), pid)


def test_silence_and_stillness_are_told_once_with_evidence(tmp_path: Path, sleeper: Any) -> None:
    bench = bench_of(tmp_path, sleeper.pid)
    bench.pass_s(1700)
    assert bench.kinds() == []
    bench.pass_s(3600)
    assert bench.kinds() == ["stalled"]
    evidence = " ".join(bench.noted[-1]["evidence"])
    assert "its process lives" in evidence
    assert "use 0.00 cores" in evidence


def test_a_new_line_ends_the_stall(tmp_path: Path, sleeper: Any) -> None:
    bench = bench_of(tmp_path, sleeper.pid)
    bench.pass_s(4000)
    bench.log("step 2\n")
    bench.pass_s(60)
    assert bench.kinds() == ["stalled", "stall_over"]
    assert bench.run.cells["main"].stalled_unix == 0.0


def test_a_frozen_log_with_advancing_results_is_no_stall(tmp_path: Path, sleeper: Any) -> None:
    bench = bench_of(tmp_path, sleeper.pid)
    for number in range(1, 60):
        put(bench.folder, "ckpt-%d.pt" % number, at=time.time() + number)
        bench.pass_s(120)
    assert bench.kinds() == []


def test_a_busy_card_is_no_stall(tmp_path: Path, sleeper: Any) -> None:
    bench = bench_of(tmp_path, sleeper.pid)
    bench.pulse.facts = lambda: {"gpus": [{"util_percent": 0}, {"util_percent": 97}]}
    bench.pass_s(4000)
    assert bench.kinds() == []


@pytest.mark.parametrize("jump_s", [-7200.0, 7200.0, -86400.0 * 365])
def test_a_clock_that_is_set_makes_nothing_stall(
    tmp_path: Path, sleeper: Any, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    bench = bench_of(tmp_path, sleeper.pid)
    bench.pass_s(60)
    real = time.time
    monkeypatch.setattr(module.time, "time", lambda: real() + jump_s)
    bench.pass_s(1600)
    assert bench.kinds() == []


def test_a_job_may_turn_it_off(tmp_path: Path, sleeper: Any) -> None:
    bench = bench_of(tmp_path, sleeper.pid, stall_after_s=0)
    bench.pass_s(20000)
    assert bench.kinds() == []


def test_only_a_job_that_says_so_has_its_trainer_ended(tmp_path: Path, sleeper: Any) -> None:
    bench = bench_of(tmp_path, sleeper.pid, on_stall="again")
    bench.pass_s(4000)
    assert bench.kinds() == ["stalled"]
    assert bench.noted[-1]["then"] == "again"
    assert sleeper.wait(60) == -15


def test_telling_leaves_the_trainer_alone(tmp_path: Path, sleeper: Any) -> None:
    bench = bench_of(tmp_path, sleeper.pid)
    bench.pass_s(4000)
    assert sleeper.poll() is None


def facts_of(bench: Bench) -> Tuple[str, ...]:
    health = bench.pulse.health("main")
    return (health.state, *health.evidence) if health else ()


def test_health_is_there_for_the_status(tmp_path: Path, sleeper: Any) -> None:
    bench = bench_of(tmp_path, sleeper.pid)
    assert facts_of(bench) == ()
    bench.pass_s(10)
    assert facts_of(bench)[0] == "running"
