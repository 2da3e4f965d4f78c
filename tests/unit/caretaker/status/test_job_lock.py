"""One version of a job at a time: looked at and claimed under one lock. Runs under PyPy too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict

import pytest

from leasehold.caretaker.process.locks import is_held
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.status.job_lock import JobTurn, job_of
from leasehold.caretaker.wire.refused import Refused
from tests.unit.caretaker import run_folders

OPENED = {"k": "run_opened", "cells": ["main"], "plan_sha256": "p"}


@pytest.fixture
def other(tmp_path: Path) -> RunFolder:
    """Give a run of the job that is at work."""
    folder = run_folders.make(tmp_path, ["result.json"])
    run_folders.journal(folder, OPENED)
    return folder


def turn(other: RunFolder, run: str = "toy-ffffffffff", **args: Any) -> JobTurn:
    return JobTurn(RunFolder.below(other.root, run), args)


@pytest.mark.parametrize(
    "run, job",
    [
        ("toy-0123456789", "toy"),
        ("toy-0123456789-2", "toy"),
        ("toy-0123456789-2-b0a1b2c", "toy"),
        ("toy-run-0123456789", "toy-run"),
        ("toy-0123456789-fedcba9876", "toy-0123456789"),
        ("no-hash", "no-hash"),
    ],
)
def test_the_job_of_a_run(run: str, job: str) -> None:
    assert job_of(run) == job


def test_another_version_that_has_not_ended_is_refused_with_the_way_on(other: RunFolder) -> None:
    with pytest.raises(Refused) as caught:
        turn(other).__enter__()
    assert caught.value.code == "run.company"
    assert str(caught.value).startswith("toy-0123456789 of the same job is running on this box")
    assert "lease run --alongside" in caught.value.hint
    assert not is_held(os.path.join(other.root, "jobs", "toy.lock")), "a refusal lets go of the lock"


@pytest.mark.parametrize("args", [{"alongside": True}, {}])
def test_the_lock_is_held_until_the_run_is_open(other: RunFolder, args: Dict[str, Any]) -> None:
    if not args:
        run_folders.journal(other, OPENED, {"k": "run_finished"})
    lock = os.path.join(other.root, "jobs", "toy.lock")
    with turn(other, **args):
        assert is_held(lock)
    assert not is_held(lock)


@pytest.mark.parametrize("run", ["toy-0123456789", "other-ffffffffff"])
def test_the_run_itself_and_another_job_are_no_company(other: RunFolder, run: str) -> None:
    with turn(other, run):
        pass


def test_a_claim_on_which_nothing_was_begun_is_no_company(tmp_path: Path, other: RunFolder) -> None:
    os.unlink(other.plan)
    os.unlink(other.journal)
    with turn(other):
        pass
