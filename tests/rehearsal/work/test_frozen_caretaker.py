"""Caretaker and keeper are frozen: what is shown is the age of their last sign of life, and a stop comes to its end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.kit.run.processes import look
from tests.support import processes
from tests.support.beds import local_bed
from tests.support.lives import Life, eventually, kill

HOLDS = """
import ctypes, os, signal, sys
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
for pid in map(int, sys.argv[1:]):
    if ptrace(16, pid, None, None):
        sys.exit("PTRACE_ATTACH: errno %d" % ctypes.get_errno())
    os.waitpid(pid, 0)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    with contextlib.ExitStack() as stack:
        made = Life(stack.enter_context(local_bed(tmp_path)), tmp_path / "life")
        stack.callback(made.close)
        yield made


@contextlib.contextmanager
def held(pids: list[int]) -> Iterator[None]:
    """A debugger holds these: no signal but SIGKILL reaches them."""
    words = [sys.executable, "-c", HOLDS, *map(str, pids)]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    try:
        if child.stdout.readline() != b"held\n":
            pytest.skip("this system does not let a process be held")
        yield
    finally:
        child.kill()
        child.communicate()


def suspend(life: Life) -> list[int]:
    pids = [*life.caretaker(), *life.keeper()]
    assert len(pids) == 2, life.explain()
    processes.send(pids, signal.SIGSTOP)
    assert eventually(lambda: all(state_of(pid) == "T" for pid in pids))
    return pids


def state_of(pid: int) -> str:
    process = look(pid)
    return process.state if process else ""


def status_file(life: Life) -> Path:
    assert life.run_folder is not None
    return life.run_folder / "status.json"


def grow_old(life: Life, seconds: float) -> None:
    """Date the last sign of life back, as if the caretaker had been frozen for longer; nobody writes it now."""
    value = json.loads(status_file(life).read_text())
    value["heartbeat_unix"] -= seconds
    status_file(life).write_text(json.dumps(value))
    then = time.time() - seconds
    os.utime(status_file(life), (then, then))


def shown(life: Life) -> dict[str, object]:
    asked = life.lease("status", "--refresh", "--json")
    assert asked.wait() == 0, life.explain()
    rows = asked.data["runs"]
    assert len(rows) == 1
    return dict(rows[0])


def test_status_shows_the_age_of_the_last_sign_of_life(life: Life) -> None:
    lease = life.run_to_mid_life()
    suspend(life)
    lease.kill()
    kill(life.trainer())
    grow_old(life, 20)
    row = shown(life)
    assert (row["state"], int(str(row["seen_s_ago"])) >= 20) == ("running", True), row
    grow_old(life, 100)
    row = shown(life)
    assert (row["state"], int(str(row["seen_s_ago"])) >= 100) == ("unknown", True), row
    assert "no heartbeat on the box for" in str(row["reason"])


def test_a_watch_says_that_the_caretaker_is_silent_and_that_it_is_back(life: Life) -> None:
    life.run_to_mid_life()
    pids = suspend(life)
    grow_old(life, 100)
    watch = life.lease("watch", life.run_id)
    assert eventually(lambda: "state unknown, last known running" in watch.said), life.explain()
    assert "its caretaker has given no sign of life for 1 min" in watch.said
    assert "though local answers" in watch.said
    processes.send(pids, signal.SIGCONT)
    assert eventually(lambda: "gives signs of life again" in watch.said), life.explain()
    life.release()
    assert watch.wait() == 0, life.explain()


def test_a_watch_of_a_run_that_ended_long_ago_calls_nobody_silent(life: Life) -> None:
    life.run_to_mid_life()
    life.release()
    assert eventually(lambda: life.state().terminal), life.explain()
    assert eventually(lambda: not life.caretaker()), life.explain()
    grow_old(life, 100)
    watch = life.lease("watch", life.run_id)
    assert watch.wait() == 0, life.explain()
    assert "run finished" in watch.said and "unknown" not in watch.said
    assert "signs of life" not in watch.said


def test_a_keeper_suspended_at_its_trainers_end_keeps_no_run_open(life: Life) -> None:
    lease = life.run_to_mid_life()
    keeper = life.keeper()
    processes.send(keeper, signal.SIGSTOP)
    assert eventually(lambda: all(state_of(pid) == "T" for pid in keeper))
    life.release()
    assert lease.wait() == 0, life.explain()
    assert f"its keeper (pid {keeper[0]}) was suspended; it was continued" in lease.said
    assert (life.state().state, life.attempts()) == ("finished", [1])


def test_the_identical_command_continues_who_is_suspended(life: Life) -> None:
    life.run_to_mid_life().kill()
    pids = suspend(life)
    grow_old(life, 100)
    again = life.run("--detach")
    assert again.wait() == 0, life.explain()
    assert f"caretaker (pid {pids[0]}) was suspended; it was continued" in again.said
    assert all(state_of(pid) != "T" for pid in pids)
    life.release()
    assert eventually(lambda: life.state().state == "finished"), life.explain()


def test_a_launch_that_finds_a_hung_caretaker_does_not_say_it_goes_on(life: Life) -> None:
    life.run_to_mid_life().kill()
    with held([*life.caretaker(), *life.keeper()]):
        grow_old(life, 100)
        again = life.run("--detach")
        assert again.wait() == 4, life.explain()
        assert "error[run.silent]" in again.said and "no sign of life for" in again.said
        assert "the run continues on the box" not in again.said


def test_a_stop_continues_who_is_suspended(life: Life) -> None:
    life.run_to_mid_life()
    pids = suspend(life)
    kill(life.trainer())
    stop = life.lease("stop", life.run_id, "--grace", "1")
    assert stop.wait() == 0, life.explain()
    assert f"caretaker (pid {pids[0]}) was suspended; it was continued" in stop.said
    assert f"keeper (pid {pids[1]}) was suspended; it was continued" in stop.said
    assert life.state().state == "stopped"


def test_a_stop_ends_the_trainer_without_a_caretaker_that_hangs(life: Life) -> None:
    lease = life.run_to_mid_life()
    guards, trainer = [*life.caretaker(), *life.keeper()], life.trainer()
    with held(guards):
        grow_old(life, 100)
        stop = life.lease("stop", life.run_id, "--grace", "0")
        assert stop.wait() == 4, life.explain()
        assert not set(trainer) & set(processes.snapshot())
        assert f"ended: pid {trainer[0]}" in stop.said
        assert f"its caretaker (pid {guards[0]}) is held by a debugger" in stop.said
        assert "stop.not_recorded" in stop.said and "no sign of life for" in stop.said
    again = life.lease("stop", life.run_id)
    assert again.wait() == 0, life.explain()
    assert life.state().state == "stopped"
    assert lease.wait() == 6, life.explain()
