"""A sweep of which some cells are home: what is still owed, and what would be lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leasehold.ledger import books
from leasehold.ledger.store import Ledger
from leasehold.model.lease.trained_time import work_of
from leasehold.model.platform.billing_facts import LeaseFacts


def _ledger(path: Path, expect_s: float = 0.0, trained_s: float = 900.0) -> Ledger:
    ledger = Ledger(path, clock=lambda: 5000.0)
    lease = books.open_lease(ledger, "gpu1", "generic-ssh", "/r", "1USD/h")
    plan = {"run": "s-1", "cells": ["a", "b"], "job": {"expect_s": expect_s}}
    where = {"box": "gpu1", "project": "/p", "results": "/p/r", "name": "s"}
    ledger.append("run_planned", lease=lease.id, run="s-1", plan=plan, **where)
    work = {"trained_s": trained_s, "training": True, "open_s": 1000.0}
    ledger.append("run_seen", lease=lease.id, run="s-1", state="running", seq=1, work=work)
    return ledger


def test_what_is_home_of_a_sweep_is_no_longer_at_risk_and_the_rest_is(tmp_path: Path) -> None:
    ledger = _ledger(tmp_path / "ledger.sqlite")
    record = books.find_run(ledger, "s-1")
    assert (record.owed(), record.home_s()) == (["a", "b"], 0.0)
    receipt = {"cells": ["a"]}
    ledger.append("receipt_written", lease=record.lease, run="s-1", receipt=receipt, export="/p/r/e", home_s=600.0)
    record = books.find_run(ledger, "s-1")
    assert (record.owed(), record.settled()) == (["b"], ["a"])
    work = work_of(record, LeaseFacts(), "/r")
    assert work is not None
    assert work.trained_s == 300.0
    ledger.append("run_seen", lease=record.lease, run="s-1", state="failed", seq=2)
    assert [one.run for one in books.metered_runs(ledger, record.lease)] == ["s-1"], "what failed is still to lose"


@pytest.mark.parametrize(("trained_s", "left_s"), [(900.0, 1100.0), (1500.0, 500.0 / 1.5), (2100.0, None)])
def test_what_is_left_of_a_sweep_is_every_cells_time_at_the_parallel_pace(
    tmp_path: Path, trained_s: float, left_s: float | None
) -> None:
    ledger = _ledger(tmp_path / "ledger.sqlite", expect_s=1000.0, trained_s=trained_s)
    work = work_of(books.find_run(ledger, "s-1"), LeaseFacts(), "/r")
    assert work is not None
    assert work.left_s == (None if left_s is None else pytest.approx(left_s))


def test_nothing_is_at_risk_once_every_cell_is_home_or_given_up(tmp_path: Path) -> None:
    ledger = _ledger(tmp_path / "ledger.sqlite")
    lease = books.find_run(ledger, "s-1").lease
    ledger.append("receipt_written", lease=lease, run="s-1", receipt={"cells": ["a"]}, export="/p/r/e", home_s=1.0)
    ledger.append("waived", lease=lease, run="s-1", cell="b")
    assert work_of(books.find_run(ledger, "s-1"), LeaseFacts(), "/r") is None
    assert json.loads(books.find_run(ledger, "s-1").receipt_json)["home_s"] == 1.0
