"""Which processes are a run's: found for many cells with one look over the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Iterator, List

import pytest

from leasehold.caretaker.process.end_processes import processes_of, trainer_processes
from leasehold.kit.run.processes import MARK, look

_SLEEP = [sys.executable, "-c", "print('here', flush=True); import time; time.sleep(60)"]


@pytest.fixture
def started(tmp_path: Path) -> "Iterator[List[subprocess.Popen[bytes]]]":
    children = [_start("%s/a/1" % tmp_path), _start("%s/b/1" % tmp_path), _start("")]
    yield children
    for child in children:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def _start(mark: str) -> "subprocess.Popen[bytes]":
    environ = dict(os.environ, **({MARK: mark} if mark else {}))
    child = subprocess.Popen(_SLEEP, env=environ, stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    child.stdout.readline()
    return child


def _born(pid: int) -> str:
    process = look(pid)
    assert process is not None
    return process.started


def test_marked_processes_of_every_cell_are_found_under_the_runs_mark(
    tmp_path: Path, started: "List[subprocess.Popen[bytes]]"
) -> None:
    found = {process.pid for process in processes_of([], str(tmp_path))}
    assert found == {started[0].pid, started[1].pid}


def test_a_trainer_without_a_mark_is_found_by_its_pid_and_start(
    tmp_path: Path, started: "List[subprocess.Popen[bytes]]"
) -> None:
    stranger = started[2].pid
    trainers = [(started[0].pid, _born(started[0].pid)), (stranger, _born(stranger))]
    assert {process.pid for process in processes_of(trainers, str(tmp_path))} == {child.pid for child in started}


def test_a_pid_that_belongs_to_somebody_else_by_now_is_not_ours(
    tmp_path: Path, started: "List[subprocess.Popen[bytes]]"
) -> None:
    found = trainer_processes(started[2].pid, "long ago", "%s/a" % tmp_path)
    assert [process.pid for process in found] == [started[0].pid]
