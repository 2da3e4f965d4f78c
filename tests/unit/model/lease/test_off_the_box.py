"""What has left a box: the report is checked, carried on by the clock, and said in words with its money."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.model.lease.off_the_box import HOME_ALONE, carried_on, checked_refuge, say_refuge

REPORT: dict[str, Any] = {
    "places": ["s3://b/p"], "home": False, "cells": 1, "copied": 1, "lost_s": 60.0, "failed": [],
    "place": "s3://b/p", "step": 1200, "age_s": 240.0,
}  # fmt: skip


def said(heard_s: float = 0.0, training: bool = True, price: str = "2USD/h", **change: Any) -> list[str]:
    report = {key: value for key, value in {**REPORT, **change}.items() if value is not None}
    return say_refuge(carried_on(checked_refuge(report), heard_s, training, price))


def test_the_newest_state_its_age_and_the_money_at_risk_are_said() -> None:
    assert said() == ["newest state off the box: step 1200, 4 min old, in s3://b/p, 1 min / 0.03 USD at risk"]


def test_the_risk_grows_with_the_clock_while_it_trains() -> None:
    assert "11 min / 0.37 USD at risk" in said(heard_s=600)[0] and "14 min old" in said(heard_s=600)[0]
    assert "1 min / 0.03 USD at risk" in said(heard_s=600, training=False)[0]


def test_nothing_that_left_is_said_so() -> None:
    assert said(age_s=None, copied=0, lost_s=720.0) == ["nothing has left this box, 12 min / 0.40 USD at risk"]


def test_home_alone_is_no_refuge() -> None:
    assert said(age_s=None, places=[], home=True)[0].startswith(HOME_ALONE)


def test_of_a_sweep_the_oldest_counts() -> None:
    assert said(cells=8, copied=5)[0].startswith("5 of 8 cells are off the box, the oldest: step 1200, 4 min old")


def test_a_failure_is_said_with_its_remedy() -> None:
    lines = said(failed=[{"place": "s3://b/p", "class": "full"}, {"place": "/t", "class": "own_disk"}])
    assert lines[1] == "no checkpoint reaches s3://b/p (full): free space there, or lower checkpoint.keep"
    assert lines[2].startswith("no checkpoint reaches /t (own-disk): free room")


def test_without_a_price_only_the_time_is_said() -> None:
    assert said(price="")[0].endswith("1 min at risk")


@pytest.mark.parametrize(
    "report", [None, 3, [], {}, {"lost_s": "1"}, {"lost_s": -1}, {"lost_s": float("nan")}, {"lost_s": True}]
)
def test_a_report_of_another_form_is_dropped(report: Any) -> None:
    assert checked_refuge(report) == {} and say_refuge({}) == []


def test_what_a_box_says_cannot_move_the_cursor_or_fill_the_screen() -> None:
    kept = checked_refuge(
        {**REPORT, "place": "\x1b[2Jx" + "y" * 9999, "places": ["a"] * 99, "failed": [1, {"place": 2}]}
    )
    assert len(kept["place"]) <= 300 and len(kept["places"]) <= 16
    line = say_refuge({**kept, "cost": ""})[0]
    assert "\x1b" not in line
