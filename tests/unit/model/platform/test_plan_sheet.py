"""Plan sheets: cadence, forecast, clocks; equal inputs give equal sheets on every day."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.errors import UserError
from leasehold.facts import profiles
from leasehold.lifecycle.preflight.plan_sheet import make_sheet, read_wishes
from leasehold.model.job.cells import Cell
from leasehold.model.job.job import Artifact, CheckpointFacts, GpuWish, Job
from leasehold.model.platform.plan_sheet import Wishes, iso, plan_cadence

NOW = 1_794_700_800.0
JOB = Job(
    "toy", "python t.py", (Artifact("best.pt", "torch"),), expect_s=43200.0, disk_bytes=40 * 10**9,
    checkpoint=CheckpointFacts("best.pt", 3 * 10**9, 30.0, 2.0),
)  # fmt: skip


def test_young_and_daly_as_in_the_runbook() -> None:
    """C = 30 s, an interruption every 3 h: 805 s; at 2 s a step 402 steps, rounded down."""
    cadence = plan_cadence(30.0, 0.0, Wishes(gap_s=3 * 3600.0))
    assert cadence is not None
    assert round(cadence.every_s) == 805
    stepped = plan_cadence(30.0, 2.0, Wishes(gap_s=3 * 3600.0))
    assert stepped is not None
    assert (stepped.every_steps, stepped.every_s) == (402, 804.0)


@given(st.floats(0.1, 3600), st.floats(60, 10**7), st.floats(0.01, 600))
def test_a_cadence_is_never_longer_than_the_formula_and_at_least_one_step(
    write: float, gap: float, step: float
) -> None:
    cadence = plan_cadence(write, step, Wishes(gap_s=gap))
    assert cadence is not None
    assert cadence.every_steps >= 1
    assert cadence.every_s <= max(step, math.sqrt(2 * gap * write)) * (1 + 1e-9)


def test_without_a_write_time_no_cadence_is_invented() -> None:
    assert plan_cadence(0.0, 2.0, Wishes()) is None


def test_cost_is_boot_run_and_pull_as_stated() -> None:
    sheet = make_sheet("autodl", JOB, profiles.load("autodl"), read_wishes(price="3.6CNY/h", bandwidth="100Mbit/s"))
    forecast = sheet.forecast
    assert forecast.pull_s == pytest.approx(3e9 * 8 / 100e6)
    assert forecast.total is not None
    assert float(dict(forecast.total.amounts)["CNY"]) == pytest.approx((120 + 43200 + 240) / 3600 * 3.6)


@pytest.mark.parametrize(
    ("gpu", "cards", "most", "rounds"),
    [(None, 0, 0, 10), (None, 8, 4, 3), (GpuWish(), 0, 4, 10), (GpuWish(), 4, 0, 3), (GpuWish(count=2), 4, 0, 5)]
    + [(GpuWish(), 8, 2, 5), (GpuWish(count=8), 4, 0, 10), (GpuWish(), 100, 0, 1)],
)
def test_a_sweep_is_estimated_by_cell_as_many_at_once_as_there_is_room(
    gpu: GpuWish | None, cards: int, most: int, rounds: int
) -> None:
    cells = tuple(Cell(f"c{number}", {"n": number}) for number in range(10))
    job = replace(JOB, gpu=gpu, cells=cells, at_once=most)
    sheet = make_sheet("runpod", job, profiles.load("runpod"), read_wishes(price="1USD/h", cards=cards))
    assert sheet.forecast.run_s == rounds * 43200.0
    assert sheet.forecast.pull_s == pytest.approx(10 * 3e9 * 8 / 50e6)
    assert sheet.need_bytes > 11 * 3 * 10**9
    assert sheet.body()["need"]["cells"] == 10
    assert "/out/<cell>/" in sheet.checkpoint
    uncounted = make_sheet("runpod", job, profiles.load("runpod"), Wishes())
    boot_and_pull_s = (uncounted.forecast.ends_s or 0.0) - (uncounted.forecast.run_s or 0.0)
    together = math.ceil(10 / (most or (10 if gpu else 1)))
    assert uncounted.soonest_s == pytest.approx(boot_and_pull_s + together * 43200.0)
    assert make_sheet("slurm", job, profiles.load("slurm"), Wishes()).at_once == (most or 10)


def test_without_a_price_the_cost_is_unknown_and_not_zero() -> None:
    assert make_sheet("autodl", JOB, profiles.load("autodl"), Wishes()).forecast.total is None
    assert str(make_sheet("local", JOB, profiles.load("local"), Wishes()).forecast.total) == "nothing"


def test_disks_beyond_the_free_part_are_counted_while_parked() -> None:
    big = replace(JOB, disk_bytes=150 * 10**9)
    day = make_sheet("autodl", big, profiles.load("autodl"), Wishes()).forecast.parked_day
    assert float(dict(day.amounts)["CNY"]) == pytest.approx((157.0737 - 50) * 0.0066, rel=1e-3)


def test_a_clock_is_a_date_where_its_start_is_known_and_never_invented() -> None:
    wishes = read_wishes(price="2CNY/h", balance="100CNY")
    sheet = make_sheet("autodl", JOB, profiles.load("autodl"), wishes)
    dates = {tick["name"]: tick["date"] for tick in sheet.as_dict(NOW)["clocks"]}
    ends = sheet.forecast.ends_s or 0.0
    assert dates["a powered-off instance is released"] == iso(NOW + ends + 15 * 86400)
    assert dates["balance used up"] == iso(NOW + 50 * 3600)
    assert dates["the host leaves the platform"] is None


def test_the_hash_knows_the_plan_and_not_the_day() -> None:
    one = make_sheet("autodl", JOB, profiles.load("autodl"), Wishes(price="2CNY/h"))
    same = make_sheet("autodl", JOB, profiles.load("autodl"), Wishes(price="2CNY/h"))
    assert one.as_dict(NOW)["sheet_sha256"] == same.as_dict(NOW + 86400)["sheet_sha256"]
    dearer = make_sheet("autodl", JOB, profiles.load("autodl"), Wishes(price="3CNY/h"))
    assert dearer.sha256 != one.sha256


@pytest.mark.parametrize(
    "word, value", [("bandwidth", "fast"), ("bandwidth", "0Mbit/s"), ("gap", "soon"), ("price", "2")]
)
def test_words_that_are_no_number_are_named(word: str, value: str) -> None:
    with pytest.raises(UserError) as caught:
        read_wishes(**{word: value})
    assert repr(value) in caught.value.message
