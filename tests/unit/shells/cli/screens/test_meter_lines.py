"""One line a lease: it stays readable on a narrow terminal and says unknown as unknown."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import pytest

from leasehold.lifecycle.money.metering import LeaseMeter
from leasehold.model.lease.lease import PARKED, Change, Lease
from leasehold.model.lease.meter import Work, read_meter
from leasehold.model.platform.billing_facts import ClockFact, LeaseFacts
from leasehold.shells.cli.screens.meter_lines import lease_lines
from leasehold.shells.cli.term_text import display_width

HOUR, DAY = 3600.0, 86400.0
START = 1_800_000_000.0
FACTS = LeaseFacts((ClockFact("released", "stopped", "15 days", 15 * DAY, "wiped", ("data disk",), "go"),))
LEASE = Lease("ad-1", "ad", "autodl", "/", START, "2CNY/h", 0.0, (Change(START, "price", "2CNY/h"),))


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def lines(held: Lease, *works: Work, after_s: float = 2 * DAY, columns: int = 0, **more: Any) -> list[str]:
    now = START + after_s
    return lease_lines(LeaseMeter(held, read_meter(held, FACTS, works, now), **more), now, columns)


def parked() -> Lease:
    return dataclasses.replace(LEASE, changes=(*LEASE.changes, Change(START + DAY, "state", PARKED)))


def test_a_running_lease_on_one_line() -> None:
    work = Work("r", True, 600.0, 30.0, START + 2 * DAY, left_s=5 * HOUR)
    assert lines(LEASE, work) == [
        "ad (autodl)  running 2 d  96.00 CNY, 2.00 CNY/h  projected 106.00 CNY  at risk 10 min / 0.333 CNY"
    ]


def test_a_parked_lease_has_its_release_date() -> None:
    (line,) = lines(parked())
    assert line == ("ad (autodl)  parked 1 d  48.00 CNY, nothing an hour  2027-01-31 08:00 released  deletes data disk")
    assert "was due 2027-01-31 08:00 released" in lines(parked(), after_s=30 * DAY)[0]


def test_figures_heard_long_ago_are_an_upper_bound() -> None:
    work = Work("r", True, 600.0, 30.0, START + HOUR)
    assert "at risk up to 1 d 23 h / 94.33 CNY" in lines(LEASE, work)[0]


def test_no_price_is_said_and_missing_facts_are_named() -> None:
    held = Lease("x", "ssh:b", "nobody", "/", START)
    assert lines(held, doubt="no profile 'nobody'") == [
        "ssh:b (nobody)  running 2 d  no price known  no clocks: no profile 'nobody'"
    ]


def test_eighty_columns_are_kept_and_no_part_is_cut_in_two() -> None:
    work = Work("r", True, 600.0, 30.0, START + HOUR, left_s=5 * HOUR)
    for held in (LEASE, parked()):
        folded = lines(held, work, columns=80)
        assert all(display_width(line) <= 80 for line in folded)
        assert "  ".join(line.strip() for line in folded) == lines(held, work)[0]


def test_an_allocation_is_shown_in_core_and_card_hours_without_risk() -> None:
    work = Work("r", True, 600.0, 30.0, START + 2 * DAY)
    (line,) = lines(LEASE, work, metered=False, used=(5400.0, 7200.0, 90.0))
    assert "no meter of money; trainers ran 1 h 30 min  used 2.00 core-hours  1.5 GPU-minutes" in line
    assert "at risk" not in line
