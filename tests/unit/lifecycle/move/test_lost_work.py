"""What a move loses: counted where it is known, unknown where it is not."""

from __future__ import annotations

import json
from typing import Any

from leasehold.kit.refuge.records import State, StateFile
from leasehold.lifecycle.move.leave_old import Old
from leasehold.lifecycle.move.lost_work import lost_work
from leasehold.lifecycle.move.places import BoxDisk, Kept
from leasehold.model.lease.lease import Lease, RunRecord

LEASE = Lease("a-1", "a", "generic-ssh", "", 0.0, "3.60USD/h", 0.0)


def record(work: dict[str, Any] | None = None, cells: tuple[str, ...] = ("main",)) -> RunRecord:
    plan = json.dumps({"cells": list(cells), "job": {}})
    said = json.dumps({"trained_s": 500.0, "training": True, **work}) if work else ""
    return RunRecord(
        "toy-0123456789", "a-1", "a", "toy", "running", "", "/p", "/p/r", 0.0, 0.0, 9, plan, "", "", (), said
    )


def kept(step: int | None, made_unix: float = 1000.0) -> Kept:
    files = (StateFile("x", 1, "0" * 64),)
    state = State("toy-0123456789", "main", 1, "a", 1, step, step or 0, made_unix, made_unix, "file", "", files)
    return Kept("000000000010-0123456789ab", state, "0" * 64, BoxDisk(None, "a"))  # type: ignore[arg-type]


def test_a_silent_box_is_judged_by_the_last_report_of_it() -> None:
    said = record({"progress": {"step": 17}, "heard_unix": 1100.0})
    lost = lost_work(said, LEASE, Old("a", why="silent"), kept(10))
    assert (lost.steps, lost.seconds, lost.money) == (7, 100.0, "0.10 USD")
    assert lost.words == "7 steps, about 1 min 40 s of training, 0.10 USD"


def test_a_box_that_answers_is_believed_about_its_own_time() -> None:
    seen = {"cells": {"main": {"state": "stopped", "ended_unix": 1030.0}}, "progress": {"step": 11}}
    lost = lost_work(record({"progress": {"step": 5}, "heard_unix": 9e9}), LEASE, Old("a", None, seen), kept(10))
    assert (lost.steps, lost.seconds) == (1, 30.0)


def test_what_is_not_known_is_called_unknown() -> None:
    lost = lost_work(record(), LEASE, Old("a", why="silent"), kept(None))
    assert (lost.steps, lost.seconds, lost.money) == (None, None, "")
    assert lost.words == "unknown how many steps, for unknown time, at an unknown price"


def test_two_clocks_that_differ_by_months_give_no_duration() -> None:
    lost = lost_work(record({"heard_unix": 1e9}), LEASE, Old("a", why="silent"), kept(10))
    assert lost.seconds is None


def test_without_a_state_everything_trained_is_lost() -> None:
    lost = lost_work(record({"progress": {"step": 17}, "heard_unix": 1.0}), LEASE, Old("a", why="silent"), None)
    assert (lost.steps, lost.seconds) == (17, 500.0)


def test_of_many_cells_no_single_figure_is_invented() -> None:
    said = record({"progress": {"cells": 2}, "heard_unix": 1.0}, ("a", "b"))
    assert lost_work(said, LEASE, Old("a"), kept(10)).steps is None
