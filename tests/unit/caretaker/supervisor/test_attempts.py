"""How an attempt begins and ends: nothing of an earlier one is left, and nothing that happened is left out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Callable, Iterator, List

import pytest

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.supervisor import attempts
from leasehold.caretaker.supervisor.attempts import Attempts
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.run.processes import MARK
from leasehold.kit.run.run_state import CellState


class _Starting(Attempts):
    """Attempts that only note what they would start."""

    def spawn_keeper(self, name: str, cell: CellState, before_exec: Callable[[], None]) -> None:
        self.note("spawned", cell=name)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(str(tmp_path / "root" / "active" / "job-1"))


@pytest.fixture
def left(folder: RunFolder) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that carries the mark of the cell's first attempt."""
    process = subprocess.Popen(["sleep", "300"], env=dict(os.environ, **{MARK: folder.mark("a", 1)}))
    yield process
    process.kill()
    process.wait()


def _begin(folder: RunFolder, attempt: int) -> List[str]:
    noted: List[str] = []

    def note(kind: str, **_: Any) -> None:
        noted.append(kind)

    starting = _Starting(folder, {"job": {}}, note, lambda name, attempt: None)
    cell = CellState()
    cell.attempt = attempt
    starting.start("a", cell, {"stage": "train", "cards": ""}, lambda: None)
    return noted


def test_what_an_earlier_attempt_left_is_ended_first(folder: RunFolder, left: "subprocess.Popen[bytes]") -> None:
    assert _begin(folder, attempt=1) == ["strays_ended", "attempt_starting", "spawned"]
    assert left.wait(timeout=30) != 0


def test_before_a_first_attempt_nobody_is_looked_for(folder: RunFolder, left: "subprocess.Popen[bytes]") -> None:
    assert _begin(folder, attempt=0) == ["attempt_starting", "spawned"]
    assert left.poll() is None


def test_an_attempt_that_begins_and_ends_during_one_look_is_told_as_both(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: List[str] = []
    place = folder.attempt("a", 1)
    os.makedirs(place)

    def note(kind: str, **_: Any) -> None:
        noted.append(kind)

    def read(path: str) -> Any:
        found = read_json(path)
        for name, value in (("started.json", {"pid": 1, "started": "1"}), ("exit.json", {"code": 0})):
            write_json(os.path.join(place, name), value)
        return found

    watching = Attempts(folder, {"job": {}}, note, lambda name, attempt: None)
    watching.keepers[1] = "a"
    cell = CellState()
    cell.attempt, cell.state = 1, "starting"
    monkeypatch.setattr(attempts, "read_json", read)
    watching.look("a", cell, lambda: None)
    cell.state = "running"
    watching.look("a", cell, lambda: None)
    assert noted == ["attempt_started", "attempt_ended"]
