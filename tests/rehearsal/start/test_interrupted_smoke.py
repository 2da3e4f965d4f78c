"""A smoke ends with the command that started it, whatever that died of; and its lines are shown as they come."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.front import LEASE, Front
from tests.support.lives import eventually
from tests.support.screens import Session

# The trainer, a worker in its group, and one that left its group, session and environment behind.
SMOKE = (
    'echo $$ > "{side}/shell"; sleep 600 & echo $! > "{side}/worker"; '
    "env -i setsid sh -c 'echo $$ > \"{side}/apart\"; exec sleep 600' & "
    'while [ ! -s "{side}/apart" ]; do sleep 0.02; done; pwd > "{side}/work"; echo under way; wait'
)


@pytest.fixture
def side(me: Front, tmp_path: Path) -> Path:
    place = tmp_path / "side"
    place.mkdir()
    me.job(smoke=SMOKE.format(side=place))
    return place


def pids(side: Path) -> list[int]:
    return [int((side / name).read_text()) for name in ("shell", "worker", "apart")]


def under_way(side: Path) -> Callable[[], bool]:
    return lambda: (side / "work").exists() and (side / "work").read_text().endswith("\n")


def gone(side: Path) -> bool:
    return not set(pids(side)) & set(processes.snapshot())


def smoke_folder(side: Path) -> Path:
    return Path((side / "work").read_text().strip()).parents[1]


def end_all(side: Path) -> None:
    processes.send(pids(side), signal.SIGKILL)


def test_ctrl_c_ends_everything_of_a_smoke(me: Front, side: Path) -> None:
    try:
        said = Session(me, "unused").type("lease run --detach", (r"\| under way", "^C"), code=130)
        assert gone(side)
        assert "the smoke was interrupted, and all its processes were ended" in said
        assert not smoke_folder(side).exists()
        assert me.runs_on_box() == []
    finally:
        end_all(side)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_smoke_ends_when_the_command_is_killed(me: Front, side: Path, number: signal.Signals) -> None:
    child = subprocess.Popen(
        [*LEASE, "check", "smoke"], cwd=me.project, env=me.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # under nohup it is ignored, and inherited so
    )  # fmt: skip
    try:
        assert eventually(under_way(side))
        child.send_signal(number)
        assert eventually(lambda: gone(side))
        child.wait()
        assert eventually(lambda: not smoke_folder(side).exists()), "its temporary folder stays behind"
    finally:
        child.kill()
        child.wait()
        end_all(side)


def test_the_lines_of_a_smoke_are_shown_while_it_runs(me: Front, tmp_path: Path) -> None:
    go = tmp_path / "go"
    me.job(
        smoke=f"echo first line; while [ ! -e {go} ]; do sleep 0.02; done; echo loss 0.5; "
        "echo '{}' > $LEASE_OUT/result.json"
    )
    said = Session(me, "unused").type("lease check smoke", (r"\| first line", go.touch))
    assert "smoke: passed" in said


def test_what_a_smoke_leaves_behind_ends_with_it(me: Front, tmp_path: Path) -> None:
    note = tmp_path / "left"
    me.job(
        smoke=f"env -i setsid sh -c 'echo $$ > {note}; exec sleep 600' & while [ ! -s {note} ]; do sleep 0.02; done; "
        "echo loss 0.5; echo '{}' > $LEASE_OUT/result.json"
    )
    done = me.lease("check", "smoke")
    assert done.code == 0, done.said
    assert int(note.read_text()) not in processes.snapshot()


def test_a_smoke_that_dies_of_a_signal_is_reported_as_such(me: Front) -> None:
    me.job(smoke="kill -SEGV $$")
    done = me.lease("check", "smoke")
    assert done.code == 3
    assert "exited with -11" in done.said + done.out or "signal" in done.said + done.out
