"""Cost, clocks and loss of a lease: reckoned from segments at a moment of our choosing, never guessed."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.facts import profiles
from leasehold.model.lease.lease import PARKED, RUNNING, Change, Lease
from leasehold.model.lease.meter import Work, as_dict, burn_per_hour, cost_between, read_meter
from leasehold.model.platform.billing_facts import ClockFact, LeaseFacts, RateFact, facts_from_dict, facts_of_profile
from leasehold.model.values.money import Money
from tests.support.examples import MANY

HOUR = 3600.0
DAY = 24 * HOUR
START = 1_800_000_000.0
DISK = RateFact("data disk", Decimal("0.24"), "CNY", 24, "always", Decimal(50), True)
WAKING = RateFact("data disk", Decimal(1), "CNY", 1, "running", Decimal(0), False)
RELEASED = ClockFact("released", "stopped", "15 days", 15 * DAY, "wiped", ("data disk",), "power it on")
BROKE = ClockFact("balance used up", "balance-zero", "at once", None, "powered off", (), "top up")
NOTICE = ClockFact("host leaves", "notice", "7 days", 7 * DAY, "released", (), "")
FACTS = LeaseFacts((RELEASED, BROKE, NOTICE), (DISK,))


def lease(*changes: tuple[float, str, object], price: str = "2CNY/h", closed: float = 0.0) -> Lease:
    told = ((0.0, "price", price), *changes) if price else changes
    made = tuple(Change(START + at, what, value) for at, what, value in told)
    return Lease("ad-1", "ad", "autodl", "/root/x", START, price, closed and START + closed, made)


def cny(amount: str) -> Money:
    return Money.of(amount, "CNY")


def cost(held: Lease, after_s: float, facts: LeaseFacts = FACTS) -> Money:
    return cost_between(held, facts, START + after_s)


def read(held: Lease, after_s: float, *works: Work, facts: LeaseFacts = FACTS):
    return read_meter(held, facts, works, START + after_s)


# ---------------------------------------------------------------- cost


def test_running_costs_price_and_storage_parked_storage_closed_nothing() -> None:
    held = lease((0.0, "disk", {"data disk": "150"}), (10 * HOUR, "state", PARKED), (34 * HOUR, "state", RUNNING))
    assert cost(held, 10 * HOUR) == cny("30")  # 10 h at 2, and 100 GB above the free 50 at 0.01 an hour
    assert cost(held, 34 * HOUR) == cny("54")  # a parked day of storage
    assert cost(held, 35 * HOUR) == cny("57")
    closed = replace(held, closed_unix=START + 35 * HOUR)
    assert cost(closed, 400 * HOUR) == cny("57")
    assert burn_per_hour(closed, FACTS) == Money()


def test_what_bills_only_while_running_rests_while_parked() -> None:
    held = lease((0.0, "disk", {"data disk": "10"}), (HOUR, "state", PARKED))
    assert cost(held, 10 * HOUR, LeaseFacts((), (WAKING,))) == cny("3")
    assert burn_per_hour(held, LeaseFacts((), (WAKING,))) == Money()


def test_a_new_price_holds_from_its_moment_on_and_currencies_stay_apart() -> None:
    held = lease((10 * HOUR, "price", "1USD/h"))
    held = replace(held, price="1USD/h")
    assert cost(held, 12 * HOUR).as_dict() == {"CNY": "20.0000", "USD": "2.0000"}


def test_the_first_price_and_size_that_are_known_count_from_the_opening() -> None:
    held = lease((HOUR, "disk", {"data disk": "150"}), (2 * HOUR, "disk", {"data disk": "250"}))
    assert cost(held, HOUR) == cny("3")
    assert cost(held, 3 * HOUR) == cny("10")
    late = replace(lease((5 * HOUR, "price", "2CNY/h"), price=""), price="2CNY/h")
    assert cost(late, 6 * HOUR) == cny("12")


def test_a_lease_without_a_price_has_no_invented_cost() -> None:
    reading = read(lease(price=""), DAY)
    assert (reading.priced, reading.cost, reading.projected) == (False, Money(), None)


CHANGES = st.lists(
    st.tuples(
        st.floats(0, 100 * HOUR),
        st.sampled_from(
            [("state", PARKED), ("state", RUNNING), ("price", "3CNY/h"), ("disk", {"data disk": "300"}), ("disk", {})]
        ),
    ),
    max_size=8,
)


def told(changes: list[tuple[float, tuple[str, object]]]) -> Lease:
    return lease(*((at, what, value) for at, (what, value) in sorted(changes, key=lambda change: change[0])))


@MANY
@given(CHANGES, st.floats(0, 200 * HOUR), st.floats(0, 200 * HOUR))
def test_cost_never_falls_and_adds_up_over_any_cut(changes: list, one: float, other: float) -> None:
    held = told(changes)
    early, late = sorted([one, other])
    before, after = (dict(cost(held, moment).amounts)["CNY"] for moment in (early, late))
    assert 0 <= before <= after
    between = dict(cost_between(held, FACTS, START + late, START + early).amounts)["CNY"]
    assert abs(before + between - after) < Decimal("1e-12")


@MANY
@given(CHANGES, st.floats(0, 200 * HOUR), st.floats(0, 200 * HOUR))
def test_a_lease_that_is_parked_never_costs_more_than_one_that_runs_on(
    changes: list, parked: float, until: float
) -> None:
    held = told([change for change in changes if change[1][0] != "state"])
    resting = told([*(change for change in changes if change[1][0] != "state"), (parked, ("state", PARKED))])
    assert dict(cost(resting, until).amounts)["CNY"] <= dict(cost(held, until).amounts)["CNY"]


@pytest.mark.parametrize("name", profiles.names())
@pytest.mark.parametrize("stopped", [True, False])
def test_the_small_facts_reckon_as_the_profile_does_and_read_back(name: str, stopped: bool) -> None:
    profile = profiles.load(name)
    facts = facts_from_dict(facts_of_profile(profile).as_dict())
    sizes = {tier.name: Decimal("123.45") for tier in profile.tiers}
    assert facts == facts_of_profile(profile)
    assert facts.storage_per_hour(sizes, stopped) == profile.storage_per_hour(sizes, stopped)
    assert [clock.name for clock in facts.clocks] == [clock.name for clock in profile.clocks]


# ---------------------------------------------------------------- clocks and balance


def test_a_parked_lease_has_its_release_date_and_a_running_one_has_none() -> None:
    parked = read(lease((DAY, "state", PARKED)), 2 * DAY)
    assert parked.next_clock is not None
    assert (parked.next_clock.name, parked.next_clock.due_unix) == ("released", START + 16 * DAY)
    running = read(lease((DAY, "state", PARKED), (2 * DAY, "state", RUNNING)), 3 * DAY)
    assert running.clocks == ()
    assert {clock.name for clock in running.undated} == {"released", "balance used up", "host leaves"}


def test_the_balance_less_what_was_spent_since_gives_its_last_day() -> None:
    held = lease((DAY, "balance", {"amount": "100CNY", "told_unix": START + DAY}))
    reading = read(held, DAY + 10 * HOUR)
    assert reading.balance_left == cny("80")
    assert reading.balance_zero_unix == START + DAY + 50 * HOUR
    assert reading.next_clock is not None and reading.next_clock.name == "balance used up"


def test_a_balance_in_another_currency_gives_no_date() -> None:
    reading = read(lease((0.0, "balance", {"amount": "100USD", "told_unix": START})), DAY)
    assert (reading.balance_left, reading.balance_zero_unix) == (Money.of("100", "USD"), None)
    assert reading.clocks == ()


def test_a_clock_that_passed_while_the_box_was_seen_at_work_did_not_fire() -> None:
    session = ClockFact("session ends", "opened", "12h", 12 * HOUR, "ends", (), "")
    facts = LeaseFacts((session,))
    work = Work("r", True, 10.0, None, START + 13 * HOUR)
    assert read(lease(), 14 * HOUR, work, facts=facts).clocks == ()
    assert read(lease(), 14 * HOUR, facts=facts).next_clock is not None


def test_what_a_stop_does_at_once_is_no_clock_any_more() -> None:
    wiped = ClockFact("scratch is wiped", "stopped", "at once", None, "wiped", ("scratch",), "")
    never = ClockFact("idle", "idle", "never", None, "nothing", (), "")
    reading = read(lease((HOUR, "state", PARKED)), DAY, facts=LeaseFacts((wiped, never)))
    assert (reading.clocks, reading.undated) == ((), ())


# ---------------------------------------------------------------- what would be lost


def test_loss_grows_with_the_clock_while_it_trains_and_else_rests() -> None:
    training = Work("r", True, 3000.0, 60.0, START + HOUR)
    reading = read(lease(), HOUR + 600, training)
    assert reading.box_loss == (3600.0, cny("2"))
    assert reading.process_loss is not None and reading.process_loss.seconds == 660.0
    ended = read(lease(), 90 * HOUR, training._replace(training=False))
    assert ended.box_loss is not None and ended.box_loss.seconds == 3000.0
    assert ended.process_loss is None


def test_an_unknown_checkpoint_makes_the_process_loss_unknown_not_zero() -> None:
    reading = read(lease(), HOUR, Work("r", True, 3000.0, None, START))
    assert reading.process_loss is None and reading.box_loss is not None


def test_the_projection_needs_an_end_and_takes_the_latest() -> None:
    assert read(lease(), HOUR).projected is None
    assert read(lease(), HOUR, Work("a", True, 0.0, None, START + HOUR)).projected is None
    two = [Work(name, True, 0.0, None, START + HOUR, left_s=left) for name, left in (("a", HOUR), ("b", 5 * HOUR))]
    assert read(lease(), HOUR, *two).projected == cny("12")


def test_json_has_exact_decimals_and_iso_dates() -> None:
    said = as_dict(read(lease((DAY, "state", PARKED)), 2 * DAY))
    assert said["cost"] == {"CNY": "48.0000"}
    assert said["next_clock"]["date"] == "2027-01-31T08:00:00Z"
    assert said["at_risk"] == {"if_the_box_dies": None, "if_the_process_dies": None, "carried_on_since": None}
