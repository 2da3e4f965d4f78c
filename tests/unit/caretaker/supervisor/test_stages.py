"""The chain of a cell: what is due next, and whether it ended far too soon."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Dict, List

import pytest

from leasehold.caretaker.supervisor.stages import Chain, stage_of, trained_s
from leasehold.kit.run.run_state import CellState
from tests.unit.caretaker.run_folders import make, plan_of


def cell_of(*passed: str) -> CellState:
    cell = CellState()
    cell.attempt, cell.passed, cell.sealed = 1, list(passed), 1
    return cell


@pytest.mark.parametrize(
    ("job", "passed", "stage"),
    [
        ({}, (), "train"),
        ({}, ("train",), "seal"),
        ({"evaluate": "x"}, ("train",), "evaluate"),
        ({"evaluate": "x"}, ("train", "evaluate"), "seal"),
    ],
)
def test_each_stage_waits_for_the_former(job: Dict[str, Any], passed: Any, stage: str) -> None:
    assert stage_of(job, cell_of(*passed)) == stage


def ran(cell: str, attempt: int, **more: Any) -> List[Dict[str, Any]]:
    stage = {"stage": more.pop("stage")} if "stage" in more else {}
    return [
        {"k": "attempt_starting", "cell": cell, "attempt": attempt, **stage},
        {"k": "attempt_ended", "cell": cell, "attempt": attempt, **more},
    ]


def test_only_training_counts_and_by_the_keepers_own_clock() -> None:
    events = [*ran("a", 1, ran_s=10.0), *ran("a", 2, ran_s=5.0), *ran("a", 3, stage="evaluate", ran_s=99.0)]
    assert trained_s([*events, *ran("b", 1, ran_s=1.0)], "a") == 15.0
    assert trained_s(ran("a", 1, lost=True), "a") is None


def finish(tmp_path: Path, cells: List[str], events: List[Dict[str, Any]], **job: Any) -> List[str]:
    folder = make(tmp_path, ["a"], **job)
    noted: List[str] = []
    plan = {**plan_of(folder), "cells": cells}
    chain = Chain(folder, plan, lambda kind, **_: noted.append(kind))
    chain.seal(cells[-1], cell_of("train"), events, lambda: None)
    return noted


def test_less_than_half_of_what_was_expected_is_fast(tmp_path: Path) -> None:
    assert finish(tmp_path, ["a"], ran("a", 1, ran_s=49.0), expect_s=100) == ["fast_finished", "cell_finished"]


def test_half_of_it_is_not(tmp_path: Path) -> None:
    assert finish(tmp_path, ["a"], ran("a", 1, ran_s=50.0), expect_s=100) == ["cell_finished"]


def test_without_a_word_of_the_job_the_other_cells_tell(tmp_path: Path) -> None:
    before = [event for name in "abc" for event in ran(name, 1, ran_s=100.0)]
    done = [{"k": "cell_finished", "cell": name} for name in "abc"]
    cells = ["a", "b", "c", "d"]
    assert finish(tmp_path / "fast", cells, [*before, *done, *ran("d", 1, ran_s=3.0)])[0] == "fast_finished"
    assert finish(tmp_path / "fair", cells, [*before, *done, *ran("d", 1, ran_s=90.0)]) == ["cell_finished"]


def test_a_clock_that_nobody_read_expects_nothing(tmp_path: Path) -> None:
    assert finish(tmp_path, ["a"], ran("a", 1), expect_s=100) == ["cell_finished"]


def test_a_seal_without_an_answer_does_not_say_that_nobody_writes_there(tmp_path: Path) -> None:
    folder = make(tmp_path, ["a"])
    noted: List[str] = []
    chain = Chain(folder, plan_of(folder), lambda kind, **_: noted.append(kind))
    cell = cell_of("train")
    cell.sealed, cell.occupied = 0, "pid 7 (python) has out/main/rows open for writing"
    deadline = time.monotonic() + 60
    while not noted and time.monotonic() < deadline:
        chain.seal("main", cell, [], lambda: os._exit(1))
        time.sleep(0.01)
    assert noted == ["failure_classed"]
