"""The patrol over a real folder and process: sampled, kept, judged, never in the way. Runs under PyPy too."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

from leasehold.caretaker.monitor import alarms as alarms_module
from leasehold.caretaker.monitor import patrol as patrol_module
from leasehold.caretaker.monitor import sampler as sampler_module
from leasehold.caretaker.monitor import vitals as vitals_module
from leasehold.caretaker.monitor.patrol import Patrol
from leasehold.caretaker.monitor.vitals import Target
from leasehold.caretaker.process.locks import is_held, try_lock
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.rings import read_ring
from leasehold.kit.run.processes import look
from leasehold.kit.run.run_state import CellState, RunState

_PLAN: Dict[str, Any] = {"job": {"progress": "auto"}, "cells": ["main"]}


class Bed:
    """A patrol over a run whose trainer sleeps, turned by hand."""

    def __init__(self, folder: RunFolder, trainer: int) -> None:
        self.folder = folder
        self.events: List[Dict[str, Any]] = []
        self.patrol = Patrol(folder, _PLAN, self.note)
        process = look(trainer)
        cell = CellState()
        cell.state, cell.attempt, cell.pid, cell.started = "running", 1, trainer, process.started if process else ""
        self.run = RunState()
        self.run.state, self.run.cells = "running", {"main": cell}

    def note(self, kind: str, **facts: Any) -> None:
        self.events.append(dict(facts, k=kind))

    def turn_until(self, holds: Callable[[], Any]) -> bool:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            self.patrol.step(self.run, self.events, lambda: None)
            if holds():
                return True
            time.sleep(0.01)
        return False

    def asked(self) -> str:
        """What the child is asking just now."""
        sampler = self.patrol._sampler
        child = sampler._asking._child if sampler else None
        return child.doing if child else ""

    def turn_until_told(self, kind: str, name: str) -> bool:
        return self.turn_until(lambda: any(one["k"] == kind and one["name"] == name for one in self.events))


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    monkeypatch.setattr(patrol_module, "_TICK_S", 0.05)
    folder = RunFolder(str(tmp_path / "active" / "run"))
    place = Path(folder.attempt("main", 1))
    place.mkdir(parents=True)
    (place / "log").write_text("step 5/10 loss 0.5\n")
    trainer = subprocess.Popen(["sleep", "100"], start_new_session=True)
    found = Bed(folder, trainer.pid)
    yield found
    found.patrol.end()
    trainer.kill()
    trainer.wait()


def full(path: str) -> Dict[str, int]:
    return {"device": 1, "total_bytes": 100, "free_bytes": 2, "total_inodes": 10, "free_inodes": 10}


def test_samples_are_told_and_kept(bed: Bed) -> None:
    assert bed.turn_until(lambda: bed.patrol.facts().get("disks"))
    facts = bed.patrol.facts()
    assert facts["trainer"]["processes"] >= 1 and facts["memory"]["used_bytes"] > 0 and facts["disks"]
    assert facts["cell"] == "main" and facts["kept"] and facts["progress"]["step"] == 5
    kept = read_ring(os.path.join(bed.folder.readings, "5s.jsonl"))
    assert kept[-1]["step"] == 5 and kept[-1]["s"] == "running" and kept[-1]["procs"] >= 1


def test_a_full_disk_becomes_an_event_that_names_it(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vitals_module, "disk_figures", full)
    assert bed.turn_until_told("alarm_raised", "disk_bytes")
    raised = next(event for event in bed.events if event["where"] == bed.folder.path)
    assert raised["level"] == "alarm" and raised["what"].endswith("is 98 % full")
    assert any(name.startswith("disk_bytes") for name in bed.patrol.alarms)


def test_children_do_not_hold_the_caretakers_lock(bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(path: str) -> Dict[str, int]:
        signal.pause()
        return {}

    monkeypatch.setattr(vitals_module, "disk_figures", hang)
    lock = try_lock(str(tmp_path / "caretaker.lock"))
    assert lock is not None
    assert bed.turn_until(lambda: bed.asked() == "disk " + bed.folder.path)
    os.close(lock)
    assert not is_held(str(tmp_path / "caretaker.lock"))


def test_a_hanging_disk_holds_up_nothing(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(path: str) -> Dict[str, int]:
        signal.pause()
        return {}

    monkeypatch.setattr(vitals_module, "disk_figures", hang)
    assert bed.turn_until(lambda: len(read_ring(os.path.join(bed.folder.readings, "5s.jsonl"))) >= 5)
    assert bed.patrol.facts()["disks"] == [] and bed.patrol.facts()["memory"]


def test_nothing_is_said_after_the_runs_end(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vitals_module, "disk_figures", full)
    assert bed.turn_until(lambda: bed.patrol.facts())
    bed.events.clear()
    bed.run.state = "finished"
    for _ in range(40):
        bed.patrol.step(bed.run, bed.events, lambda: None)
        time.sleep(0.01)
    assert bed.events == []


def test_a_journal_that_cannot_be_written_ends_nothing(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(kind: str, **facts: Any) -> None:
        bed.events.append({"k": "tried", "name": kind})
        raise OSError(28, "No space left on device")

    bed.patrol._note = refuse
    monkeypatch.setattr(vitals_module, "disk_figures", full)
    assert bed.turn_until(lambda: len([event for event in bed.events if event["k"] == "tried"]) > 2)
    assert bed.patrol.alarms == []


def test_a_defect_ends_nothing_and_leaves_its_traceback(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(facts: Any, memory: Any) -> Any:
        raise KeyError("a defect of ours")

    monkeypatch.setattr(alarms_module, "signs_of", broken)
    error = Path(bed.folder.path) / "patrol-defect.txt"
    assert bed.turn_until(lambda: error.exists() and "a defect of ours" in error.read_text())


def test_a_new_patrol_goes_on_with_the_series(bed: Bed) -> None:
    path = os.path.join(bed.folder.readings, "5s.jsonl")
    assert bed.turn_until(lambda: len(read_ring(path)) >= 2)
    bed.patrol.end()
    bed.patrol = Patrol(bed.folder, _PLAN, bed.note)
    before = len(read_ring(path))
    assert bed.turn_until(lambda: len(read_ring(path)) >= before + 2)
    numbers = [record["n"] for record in read_ring(path)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_folder_that_cannot_be_written_still_gives_readings(bed: Bed) -> None:
    Path(bed.folder.readings).parent.mkdir(exist_ok=True)
    Path(bed.folder.readings).write_text("a file where the folder should be")
    assert bed.turn_until(bed.patrol.facts)
    assert bed.patrol.facts()["kept"] is False


def test_a_record_holds_what_plots_and_lines_need() -> None:
    facts: Dict[str, Any] = {
        "t": 1.0,
        "disks": [{"total_bytes": 100 << 20, "free_bytes": 25 << 20, "total_inodes": 0, "free_inodes": 0}],
        "memory": {"used_bytes": 5 << 20, "limit_bytes": 9 << 20},
        "progress": {"step": 3, "loss": None, "rate_per_s": 1.23456, "quiet_s": 0.4},
        "gpus": [{"util_percent": 9, "memory_used_bytes": 7 << 20, "power_w": 99.6, "reasons": ["sw_power_cap"]}],
        "fresh": ["gpu", "disk /x"],
    }
    assert sampler_module.record_of(facts, Target("running", alarms=("memory",))) == {
        "t": 1.0,
        "s": "running",
        "step": 3,
        "loss": None,
        "rate": 1.235,
        "quiet": 0,
        "procs": 0,
        "mem": 5,
        "lim": 9,
        "disks": [[75.0, 25, None]],
        "gpus": [[9, 7, 100, None, None, 4]],
        "a": ["memory"],
    }


def test_cards_that_were_not_asked_again_are_not_kept_again() -> None:
    facts: Dict[str, Any] = {"t": 1.0, "gpus": [{"util_percent": 9}], "fresh": ["disk /x"]}
    assert "gpus" not in sampler_module.record_of(facts, Target())
