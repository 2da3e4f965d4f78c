"""`kill -9` of the home at each step of a move: the identical command continues, and the run is at work once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import LEASE, Front, front
from tests.support.lives import eventually
from tests.support.moves import Mover, local_events, sums

STEPS = 40
NO_SMOKE = ("--skip-gate", "smoke", "--because", "the test is about moves")
MOMENTS = [
    ("home.move_begun", "after"),
    ("home.move_fenced", "before"),
    ("home.move_fenced", "after"),
    ("home.move_laid", "before"),
    ("home.move_laid", "after"),
    ("home.run_planned", "after"),
    ("home.run_moved", "before"),
    ("home.run_moved", "after"),
]


@pytest.fixture
def mover(tmp_path: Path) -> Iterator[Mover]:
    with front(tmp_path) as person:
        made = Mover(person, STEPS)
        made.add_local("a")
        made.add_local("b")
        yield made
        made.release()


@pytest.mark.parametrize(
    ("event", "phase"),
    [pytest.param(*moment, marks=[] if moment[0] == "home.move_fenced" else pytest.mark.full) for moment in MOMENTS],
)
def test_a_killed_move_continues_by_the_identical_command(mover: Mover, event: str, phase: str) -> None:
    run = mover.begin("a", 17)
    killed_at(mover.person, event, phase, "move", "mover", "--to", "b", "--detach", *NO_SMOKE)
    again = mover.person.lease("move", "mover", "--to", "b", "--detach", *NO_SMOKE)
    assert again.code == 0, again.said
    mover.release()
    done = mover.person.lease("run", "--on", "b", *NO_SMOKE)
    assert done.code == 0, done.said
    assert mover.starts() == [0, 15], done.said
    assert mover.result() == sums(STEPS)[STEPS]
    assert len(local_events(mover.person.folder / "b", "resumed_from")) == 1
    assert len(mover.person.events("run_moved")) == 1
    assert {json.loads(mover.person.lease("status", "--json").out)["runs"][0]["run"]} == {run}


def killed_at(person: Front, event: str, phase: str, *words: str) -> None:
    """Type a command and kill it at a moment."""
    aim = person.folder / f"aim-{event}-{phase}"
    aim.mkdir()
    environment = {**person.environment, "LEASEHOLD_PAUSE": f"{aim}:{event}:{phase}"}
    said = person.folder / "killed"
    with said.open("wb") as file:
        child = subprocess.Popen(
            [*LEASE, *words], cwd=person.project, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    try:
        assert eventually((aim / "reached").exists), said.read_text()
        os.kill(child.pid, signal.SIGKILL)
    finally:
        child.kill()
        child.wait()
