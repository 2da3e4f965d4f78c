"""A stop presses every live cell: asked to save where somebody listens, then TERM, then KILL when the grace is over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator, List

import pytest

from leasehold.caretaker.supervisor import stop as module
from leasehold.caretaker.supervisor.stop import Stopping
from leasehold.kit.run.processes import look
from leasehold.kit.run.run_state import CellState
from tests.unit.caretaker.run_folders import make, plan_of, put

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
WILLING = "import time; print('up', flush=True); time.sleep(600)"


class Clock:
    """Monotonic time that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def children() -> Iterator[List[Any]]:
    made: List[Any] = []
    yield made
    for child in made:
        child.kill()
        child.communicate()


def trainer(children: List[Any], script: str) -> CellState:
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    children.append(child)
    assert child.stdout is not None
    child.stdout.readline()
    cell = CellState()
    seen = look(child.pid)
    cell.state, cell.attempt, cell.pid, cell.started = "running", 1, child.pid, seen.started if seen else ""
    return cell


def test_every_live_cell_is_told(tmp_path: Path, clock: Clock, children: List[Any]) -> None:
    folder = make(tmp_path, ["a"])
    os.makedirs(folder.cell("second"))
    stopping = Stopping(folder, plan_of(folder), lambda *_: None)
    for name in ("main", "second"):
        stopping.press(name, trainer(children, WILLING), 30)
    assert [child.wait(60) for child in children] == [-signal.SIGTERM, -signal.SIGTERM]


def test_who_ignores_it_is_killed_when_the_grace_is_over_and_not_before(
    tmp_path: Path, clock: Clock, children: List[Any]
) -> None:
    folder = make(tmp_path, ["a"])
    stopping = Stopping(folder, plan_of(folder), lambda *_: None)
    cell = trainer(children, STUBBORN)
    for _ in range(3):
        stopping.press("main", cell, 30)
        clock.now += 9
    assert children[0].poll() is None
    clock.now += 9
    stopping.press("main", cell, 30)
    assert children[0].wait(60) == -signal.SIGKILL


def test_a_listener_is_waited_for_until_it_has_saved(tmp_path: Path, clock: Clock, children: List[Any]) -> None:
    folder = make(tmp_path, ["a"], checkpoint={"path": "ckpt/*.safetensors"})
    put(folder, "ckpt/index.json", "{}")
    stopping = Stopping(folder, plan_of(folder), lambda *_: None)
    cell = trainer(children, WILLING)
    stopping.press("main", cell, 30)
    assert os.path.exists(folder.save_request("main"))
    assert children[0].poll() is None
    Path(folder.save_request("main") + ".done").write_text("7")
    stopping.press("main", cell, 30)
    assert children[0].wait(60) == -signal.SIGTERM


def test_a_listener_that_does_not_answer_costs_at_most_half_the_grace(
    tmp_path: Path, clock: Clock, children: List[Any]
) -> None:
    folder = make(tmp_path, ["a"], checkpoint={"path": "ckpt/*.safetensors", "write_s": 600})
    put(folder, "ckpt/index.json", "{}")
    stopping = Stopping(folder, plan_of(folder), lambda *_: None)
    cell = trainer(children, WILLING)
    stopping.press("main", cell, 30)
    clock.now += 16
    stopping.press("main", cell, 30)
    assert children[0].wait(60) == -signal.SIGTERM
