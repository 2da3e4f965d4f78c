"""How an attempt begins: nothing of an earlier one is left, and where there was none nobody is looked for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Callable, Iterator, List

import pytest

from leasehold.caretaker.attempts import Attempts
from leasehold.caretaker.layout import RunFolder
from leasehold.kit.procs import MARK
from leasehold.kit.runstate import CellState


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

    attempts = _Starting(folder, {"job": {}}, note, lambda name, attempt: None)
    cell = CellState()
    cell.attempt = attempt
    attempts.start("a", cell, {"stage": "train", "cards": ""}, lambda: None)
    return noted


def test_what_an_earlier_attempt_left_is_ended_first(folder: RunFolder, left: "subprocess.Popen[bytes]") -> None:
    assert _begin(folder, attempt=1) == ["strays_ended", "attempt_starting", "spawned"]
    assert left.wait(timeout=30) != 0


def test_before_a_first_attempt_nobody_is_looked_for(folder: RunFolder, left: "subprocess.Popen[bytes]") -> None:
    assert _begin(folder, attempt=0) == ["attempt_starting", "spawned"]
    assert left.poll() is None
