"""Stop ends exactly our processes on a box behind a real sshd: all of them, and nobody else's."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.support import processes
from tests.support.beds import SshBed
from tests.support.lives import JOB, Life, check_trainers, eventually

pytestmark = pytest.mark.real_ssh

Begin = Callable[..., Life]
TRAIN = str(JOB["run"])


def pid_in(life: Life, name: str) -> int:
    path = life.side / name
    assert eventually(lambda: path.exists() and path.read_text().endswith("\n")), life.explain()
    return int(path.read_text())


def alive(pid: int) -> bool:
    return pid in processes.snapshot()


def outside(how: str, name: str) -> str:
    """Start a grandchild in a session of its own, which notes its pid."""
    return f"setsid sh -c '{how} echo $$ > \"$SIDE/{name}\"; while :; do sleep 0.1; done' & "


def test_stop_ends_exactly_our_processes(begin: Begin) -> None:
    life = begin("mine", {"run": outside("", "grandchild") + "python3 -I -S train.py"})
    other = begin("theirs")
    assert isinstance(life.bed, SshBed)
    box = life.bed.box
    sibling = int(box.run("setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $!").stdout)
    watching = life.run_to_mid_life()
    other.run_to_mid_life()
    grandchild = pid_in(life, "grandchild")
    [shell] = life.trainer()
    trainers = [line.pid for line in life.diary() if line.what == "start"]

    stop = life.lease("stop", life.run_id, "--grace", "10")
    assert stop.wait() == 0, life.explain()
    assert [pid for pid in (shell, *trainers, grandchild) if alive(pid)] == []
    assert alive(sibling)
    assert other.trainer()
    assert life.state().state == "stopped"
    assert watching.wait() == 6, life.explain()

    second = life.lease("stop", life.run_id)
    assert second.wait() == 0, life.explain()
    assert "had already stopped" in second.said
    other.release()
    life.release()
    assert life.run().wait() == 0, life.explain()
    assert life.attempts() == [1, 2]
    check_trainers(life)


def test_a_trainer_that_ignores_sigterm_is_killed_after_the_grace(begin: Begin) -> None:
    life = begin(job={"run": "trap '' TERM; " + TRAIN})
    lease = life.run_to_mid_life()
    [trainer] = life.trainer()
    assert life.lease("stop", life.run_id, "--grace", "1").wait() == 0, life.explain()
    assert not alive(trainer)
    assert [end["signal"] for end in life.ends()] == [signal.SIGKILL]
    assert lease.wait() == 6, life.explain()


def test_a_grandchild_that_left_the_group_and_ignores_sigterm_dies_too(begin: Begin) -> None:
    life = begin(job={"run": outside('trap "" TERM;', "stubborn") + TRAIN})
    life.run_to_mid_life()
    stubborn = pid_in(life, "stubborn")
    assert life.lease("stop", life.run_id, "--grace", "1").wait() == 0, life.explain()
    assert eventually(lambda: not alive(stubborn), 10), "stop says that its processes are gone"


def test_a_trainer_may_use_its_grace_to_end_well(begin: Begin) -> None:
    ends_well = 'trap \'printf {} > "$LEASE_OUT/result.json"; exit 0\' TERM; : > "$SIDE/holding"; '
    waits = "echo up; while :; do sleep 0.05; done"
    life = begin(job={"run": ends_well + waits, "artifacts": {"result.json": "json"}})
    lease = life.run_to_mid_life()
    assert life.lease("stop", life.run_id, "--grace", "30").wait() == 0, life.explain()
    assert life.state().state == "finished"
    assert lease.wait() == 0, life.explain()
