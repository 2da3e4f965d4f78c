"""An attempt is judged by its own journal, log and disk; what happened before or elsewhere does not count."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict

import pytest

from leasehold.caretaker.failure import judge
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.run.processes import boot_id
from tests.unit.caretaker.run_folders import journal, make, put

OPENED = {"k": "run_opened", "cells": ["main"]}


def started(**more: Any) -> Dict[str, Any]:
    return {"k": "attempt_started", "cell": "main", "attempt": 1, "pid": 4242, "at": 900.0, "boot": boot_id(), **more}


def ended(**how: Any) -> Dict[str, Any]:
    return {"k": "attempt_ended", "cell": "main", "attempt": 1, "at": 2000.0, **how}


def log(folder: RunFolder, text: str) -> None:
    os.makedirs(folder.attempt("main", 1), exist_ok=True)
    Path(folder.attempt("main", 1), "log").write_text(text)


def judged(folder: RunFolder, capfd: pytest.CaptureFixture[str]) -> Dict[str, Any]:
    judge.judge(folder, "main", 1)
    return dict(json.loads(capfd.readouterr().out))


def test_a_sign_in_the_log_gives_class_mark_and_evidence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["a"])
    journal(folder, OPENED, started(), ended(code=1, signal=None))
    traceback = "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\nKeyError: 'lr'\n"
    log(folder, "step 41/100 loss 1.0\nstep 42/100 loss 1.0\n" + traceback)
    found = judged(folder, capfd)
    assert (found["class"], found["signs"][0], found["mark"]) == ("bug", "PY7", "PY7 at step 42")
    assert "line 5" in found["evidence"][0]


def test_without_a_step_the_last_words_tell_two_failures_apart(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = make(tmp_path, ["a"])
    journal(folder, OPENED, started(), ended(code=1, signal=None))
    marks = []
    for words in ("503 Server Error: x\nloading a\n", "503 Server Error: x\nloading a\n", "503 Server Error: x\nb\n"):
        log(folder, words)
        marks.append(judged(folder, capfd)["mark"])
    assert marks[0] == marks[1] != marks[2]


def test_a_newer_checkpoint_counts_as_work_that_was_saved(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["a"], checkpoint={"path": "last.pt"})
    journal(folder, OPENED, started(), ended(code=None, signal=9))
    log(folder, "up\n")
    put(folder, "last.pt", at=800.0)
    assert judged(folder, capfd)["saved"] is False
    put(folder, "last.pt", at=950.0)
    assert judged(folder, capfd)["saved"] is True


def test_a_platforms_clock_explains_an_end_at_its_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["a"])
    Path(folder.environment).write_text('{"clocks": [["the session ends", 1000.0]]}')
    journal(folder, OPENED, started(), ended(code=None, signal=9))
    log(folder, "up\n")
    found = judged(folder, capfd)
    assert (found["class"], found["verdict"]) == ("walltime", "walltime")


def test_the_cards_own_failure_is_taken_from_the_patrol(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    alarm = {"k": "alarm_raised", "name": "gpu_xid", "level": "alarm", "what": "card 0: off the bus", "seen": "Xid 79"}
    folder = make(tmp_path, ["a"])
    log(folder, "RuntimeError: CUDA error: unspecified launch failure\n")
    journal(folder, OPENED, alarm, started(), ended(code=1, signal=None))
    assert judged(folder, capfd)["class"] != "hardware", "it was before this attempt"
    journal(folder, OPENED, started(), alarm, ended(code=1, signal=None))
    assert judged(folder, capfd)["class"] == "hardware"


@pytest.mark.parametrize("text", ["", "\0\0\xff" * 1000, "x" * 300_000], ids=["empty", "binary", "one long line"])
def test_any_log_has_an_answer(tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str) -> None:
    folder = make(tmp_path, ["a"])
    journal(folder, OPENED, started(), ended(lost=True))
    log(folder, text)
    assert judged(folder, capfd)["class"] == "unknown"


def test_a_log_that_is_gone_has_an_answer_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["a"])
    journal(folder, OPENED, started(), ended(code=None, signal=9))
    assert judged(folder, capfd)["verdict"] == "killed"
