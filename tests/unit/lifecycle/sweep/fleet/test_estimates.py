"""How long cells are expected to take."""

from __future__ import annotations

from pathlib import Path

from leasehold.kit.run.run_state import RunState, fold
from leasehold.ledger.store import Ledger
from leasehold.lifecycle.sweep.fleet.estimates import Estimates, recall, remember, times_of, waiting


def _run(*events: dict[str, object]) -> RunState:
    opened = {"k": "run_opened", "cells": ["done", "now", "next"]}
    return fold({"n": number + 1, "t": 0.0, **event} for number, event in enumerate([opened, *events]))


def _working() -> RunState:
    return _run(
        {"k": "attempt_started", "cell": "done", "at": 100.0, "attempt": 1},
        {"k": "attempt_ended", "cell": "done", "at": 110.0, "code": 0},
        {"k": "cell_finished", "cell": "done"},
        {"k": "attempt_starting", "cell": "now", "attempt": 1},
        {"k": "attempt_started", "cell": "now", "at": 112.0},
    )


def test_a_cell_of_equal_cost_takes_the_finished_ones_time_less_its_own() -> None:
    estimates = Estimates({"done": 1.0, "now": 1.0, "next": 2.0}, times_of(_working()))
    assert estimates.left(_working(), now_unix=116.0) == {"now": 6.0, "next": 20.0}


def test_a_cell_past_its_estimate_is_expected_to_go_on() -> None:
    estimates = Estimates({"done": 1.0, "now": 1.0, "next": 1.0}, times_of(_working()))
    assert estimates.left(_working(), now_unix=152.0)["now"] == 20.0


def test_only_what_was_never_begun_waits() -> None:
    assert waiting(_working()) == ["next"]


def test_what_cells_took_is_there_for_the_next_sweep_of_the_same_job(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    remember(ledger, "ablation", "ablation-1", {"a": 10.0})
    remember(ledger, "ablation", "ablation-2", {"a": 12.0, "b": 3.0})
    remember(ledger, "ablation", "ablation-3", {"b": 3.0})
    assert recall(ledger, "ablation") == {"a": 12.0, "b": 3.0}
    assert recall(ledger, "other") == {}
    assert sum(1 for _ in ledger.events(kind="cells_timed")) == 2
