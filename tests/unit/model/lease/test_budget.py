"""A budget: what counts against it, when it warns, and what is never compared."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.caretaker.supervisor.budget import Allowance
from leasehold.model.lease.budget import THRESHOLDS, Spending, Stay, for_the_box, mismatch, spending_of
from leasehold.model.lease.lease import Lease
from leasehold.model.platform.billing_facts import LeaseFacts
from tests.support.examples import MANY

HOUR = 3600.0


def lease(price: str) -> Lease:
    return Lease("l", "gpu1", "p", "/", 0.0, price)


def spent(amount: str, limit: str = "20") -> Spending:
    return Spending("r", Decimal(limit), "USD", "warn", Decimal(amount))


def test_a_run_pays_for_the_time_it_had_the_box() -> None:
    held = lease("2USD/h")
    stays = [Stay(held, LeaseFacts(), 10 * HOUR, 12 * HOUR), Stay(held, LeaseFacts(), 20 * HOUR, 21 * HOUR)]
    assert spending_of("r", "20USD", "warn", stays).spent == 6


def test_another_currency_stands_apart() -> None:
    stays = [Stay(lease("2USD/h"), LeaseFacts(), 0.0, HOUR), Stay(lease("3CNY/h"), LeaseFacts(), 0.0, HOUR)]
    said = spending_of("r", "20USD", "warn", stays)
    assert (said.spent, said.apart.as_dict()) == (2, {"CNY": "3.0000"})


@pytest.mark.parametrize(
    "amount, passed, percent",
    [("9.999999", 0, 49), ("10", 50, 50), ("15.99", 50, 79), ("16", 80, 80), ("20", 100, 100), ("50", 100, 250)],
)
def test_thresholds_are_exact(amount: str, passed: int, percent: int) -> None:
    assert (spent(amount).passed, spent(amount).percent) == (passed, percent)


def test_a_budget_of_nothing_is_used_up_at_once() -> None:
    assert (spent("0", "0").passed, spent("0", "0").percent) == (100, 100)


@pytest.mark.parametrize("price, says", [("", "has no price"), ("2CNY/h", "paid in CNY"), ("2USD/h", "")])
def test_what_cannot_be_compared_is_said(price: str, says: str) -> None:
    text = mismatch("20USD", lease(price))
    assert (says in text) if says else text == ""


@MANY
@given(
    st.decimals("0", "10000", places=4), st.decimals("0", "1000", places=4), st.decimals("0.0001", "900", places=4),
    st.integers(0, 10**6),
)  # fmt: skip
def test_box_and_home_reckon_alike(limit: Decimal, before: Decimal, price: Decimal, seconds: int) -> None:
    said = Spending("r", limit, "USD", "warn", before)
    value = for_the_box(said, lease(f"{price:f}USD/h"), LeaseFacts())
    box = Allowance({**value, "as_of_unix": 1_800_000_000.0})
    home = Spending("r", limit, "USD", "warn", before + price * seconds / 3600)
    on_box = Decimal(box.spent(1_800_000_000.0 + seconds)) / 10**12
    assert abs(on_box - home.spent) <= Decimal("1e-6")
    near = [abs(home.spent * 100 - limit * mark) < Decimal("0.001") for mark in THRESHOLDS]
    assert any(near) or box.passed(1_800_000_000.0 + seconds) == home.passed
