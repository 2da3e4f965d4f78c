"""Prices as given: no rate invented, no cent lost, and what is printed can be read again."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.errors import UserError
from leasehold.model.lease.lease import Lease
from leasehold.model.values.money import HourlyPrice
from tests.support.examples import MANY

AMOUNTS = st.decimals(0, 10**9, places=9, allow_nan=False)
CURRENCIES = st.text("ABCXYZ", min_size=3, max_size=3)


@pytest.mark.parametrize(
    "text, price",
    [
        ("1.98USD/h", HourlyPrice(Decimal("1.98"), "USD")),
        (" 2.4 cny / hour ", HourlyPrice(Decimal("2.4"), "CNY")),
        ("0EUR/h", HourlyPrice(Decimal(0), "EUR")),
        ("12usd/h", HourlyPrice(Decimal(12), "USD")),
    ],
)
def test_a_price_is_read_as_people_write_it(text, price):
    assert HourlyPrice.parse(text) == price


@pytest.mark.parametrize(
    "text",
    ["", "1.98", "USD/h", "$1.98/h", "1.98USD", "-1USD/h", "1,98USD/h", "1.98USD/d", "1e3USD/h", "nanUSD/h", "1.USD/h"],
)
def test_what_is_no_price_is_refused_with_an_example(text):
    with pytest.raises(UserError) as caught:
        HourlyPrice.parse(text)
    assert caught.value.code == "box.bad_price"
    assert "1.98USD/h" in caught.value.hint


@MANY
@given(AMOUNTS, CURRENCIES)
def test_a_price_that_was_written_down_can_be_read_again(amount, currency):
    """The ledger keeps str(price); every later command reads it back."""
    price = HourlyPrice(amount, currency)
    assert HourlyPrice.parse(str(price)) == price


@MANY
@given(AMOUNTS, st.integers(0, 10**7))
def test_a_cost_is_amount_times_hours_to_the_cent(amount, seconds):
    said, currency = HourlyPrice(amount, "USD").cost(seconds).split()
    assert currency == "USD"
    assert abs(Decimal(said) - amount * seconds / 3600) <= Decimal("0.005")


@MANY
@given(AMOUNTS, st.floats(0, 1e7), st.floats(0, 1e7))
def test_a_longer_hold_never_costs_less(amount, one, other):
    price = HourlyPrice(amount, "USD")
    short, long = (Decimal(price.cost(seconds).split()[0]) for seconds in sorted([one, other]))
    assert short <= long


def test_a_clock_that_ran_backwards_costs_nothing():
    assert HourlyPrice.parse("3600USD/h").cost(-5) == "0.00 USD"


def test_a_lease_costs_until_it_was_closed():
    held = Lease("l", "b", "p", "/", opened_unix=1000.0, price="3600USD/h")
    closed = Lease("l", "b", "p", "/", opened_unix=1000.0, price="3600USD/h", closed_unix=1010.0)
    assert held.cost(1005.0) == "5.00 USD"
    assert closed.cost(9999.0) == "10.00 USD"
    assert Lease("l", "b", "p", "/", 1.0).cost(5.0) == ""
    assert (held.open, closed.open) == (True, False)
