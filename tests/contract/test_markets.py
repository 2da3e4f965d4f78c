"""One suite, every landlord with an API: the real adapter against the vendor's fake, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

import pytest

from leasehold.errors import (
    AnswerLost,
    BadKey,
    LandlordDown,
    LandlordError,
    LandlordSaidNo,
    LeaseholdError,
    NoCapacity,
    TooFast,
)
from leasehold.platforms.landlords.market import Act, Holding, Kind, Market, Need, Offer, RentOrder, State
from tests.fakes.landlords.server import FakeLandlord
from tests.fakes.landlords.street import EXAMPLE, FAKES, fake_landlord, market_on
from tests.fakes.landlords.world import FakeBox

LABEL = "lease-4f3a9c1b2d"
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFakeFakeFakeFakeFakeFakeFakeFakeFakeFake me@home"
NEED = {
    "runpod": Need(("RTX 4090",), disk_gb=50),
    "vastai": Need(("RTX 4090",), disk_gb=50),
    "lambda": Need(("A100",), disk_gb=50),
    "paperspace": Need(("A100",), disk_gb=50),
    "acme": Need(("T4",), disk_gb=50),
    "autodl-pro": Need(("PRO 6000",), disk_gb=50),
}
TELLS_BALANCE = {"vastai", "autodl-pro", "acme"}
TELLS_BILL = {"runpod", "vastai"}
REGION = {
    "runpod": "US",
    "vastai": "US",
    "lambda": "us-east",
    "paperspace": "NY2",
    "autodl-pro": "westDC3",
    "acme": "",
}
CANNOT_PARK = {"lambda"}
PRICED_LATE = {"autodl-pro", "paperspace"}  # the price is told only for a box that there is
HAS_NO_PAGES = {"runpod", "lambda"}
HOUR_S = 3600.0
ALL = {*FAKES, *EXAMPLE}  # the example is the adapter that docs/landlords-own.md shows


@dataclass
class Bench:
    """One landlord under test."""

    name: str
    fake: FakeLandlord
    market: Market

    def offer(self) -> Offer:
        """The first offer."""
        return self.market.offers(NEED[self.name])[0]

    def rent(self, label: str = LABEL) -> str:
        """Rent the first offer."""
        return self.market.rent(RentOrder(label, self.offer(), disk_gb=50, public_key=PUBLIC_KEY))

    def running(self) -> str:
        """Rent a box and let it come up."""
        id = self.rent()
        self.fake.clock.pass_s(600)
        assert self.held(id).state is State.RUNNING
        return id

    def held(self, id: str) -> Holding:
        """The holding, which must be there."""
        found = self.market.holding(id)
        assert found is not None
        return found

    def box(self, id: str) -> FakeBox:
        """The box as the landlord sees it."""
        return next(box for box in self.fake.world.boxes.values() if box.id == id)

    def labelled(self, label: str = LABEL) -> list[Holding]:
        """What the list shows under a label."""
        return [one for one in self.market.holdings() if one.label == label and one.kind is Kind.BOX]

    def release(self, id: str) -> None:
        """Ask until it is gone."""
        for _ in range(50):
            self.market.act(id, Act.RELEASE)
            self.fake.clock.pass_s(30)
            if self.market.holding(id) is None:
                return
        raise AssertionError(f"{id} is still there")

    def parked(self) -> str:
        """Rent a box, let it come up and stop it."""
        id = self.running()
        self.market.act(id, Act.PARK)
        self.fake.clock.pass_s(120)
        assert self.held(id).state is State.PARKED
        return id


def _shown(name: str) -> str:
    return f"on-{name}"  # not `autodl…`: that word is a bed of the full tier


@pytest.fixture(params=sorted(ALL), ids=_shown)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Give each landlord in turn."""
    with fake_landlord(request.param) as fake:
        yield Bench(request.param, fake, market_on(fake))


@pytest.fixture(params=sorted(ALL - CANNOT_PARK), ids=_shown)
def parking_bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Give each landlord that can stop a box and keep it."""
    with fake_landlord(request.param) as fake:
        yield Bench(request.param, fake, market_on(fake))


@pytest.fixture(params=sorted(ALL - HAS_NO_PAGES), ids=_shown)
def paging_bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Give each landlord whose lists have pages."""
    with fake_landlord(request.param) as fake:
        yield Bench(request.param, fake, market_on(fake))


# ---------------------------------------------------------------- account and key


def test_the_account_has_a_name_of_its_own(bench: Bench) -> None:
    account = bench.market.account()
    assert account.id
    assert account.read_unix == bench.fake.clock()
    assert (account.balance is not None) == (bench.name in TELLS_BALANCE)


def test_a_bad_key_is_an_error_and_never_gone(bench: Bench) -> None:
    id = bench.running()
    offer = bench.offer()
    thief = market_on(bench.fake, "another-key-0123456789")
    for ask in (
        thief.account,
        thief.holdings,
        lambda: thief.offers(NEED[bench.name]),
        lambda: thief.holding(id),
        lambda: thief.rent(RentOrder("lease-other", offer, public_key=PUBLIC_KEY)),
        lambda: thief.act(id, Act.RELEASE),
    ):
        with pytest.raises(BadKey) as caught:
            ask()
        assert "another-key" not in str(caught.value.as_dict())
    assert bench.held(id).state is State.RUNNING


def test_two_keys_are_two_accounts(bench: Bench) -> None:
    first = bench.market.account().id
    bench.fake.key = "another-key-0123456789"
    with pytest.raises(BadKey):
        bench.market.account()
    if bench.name in ("runpod", "lambda"):
        assert market_on(bench.fake, bench.fake.key).account().id != first


# ---------------------------------------------------------------- offers


def test_offers_carry_their_price_and_its_date(bench: Bench) -> None:
    offer = bench.offer()
    if bench.name in PRICED_LATE:
        assert offer.price is None
        assert "price" in offer.note
    else:
        assert offer.price is not None
        assert offer.price.amount > 0
    assert offer.read_unix == bench.fake.clock()
    assert offer.count == 1
    assert offer.market == bench.name
    assert offer.can_park == (bench.name not in CANNOT_PARK)


def test_an_unknown_card_has_no_offers(bench: Bench) -> None:
    assert bench.market.offers(Need(("B9999",))) == ()


def test_offers_are_of_the_regions_that_were_asked_for(bench: Bench) -> None:
    need = NEED[bench.name]
    here = replace(need, regions=(REGION[bench.name],))
    if bench.name != "acme":  # it has no regions
        assert bench.market.offers(here)
    assert bench.market.offers(replace(need, regions=("Atlantis",))) == ()


def test_what_is_out_of_stock_is_not_offered(bench: Bench) -> None:
    offer = bench.offer()
    bench.fake.world.stock = dict.fromkeys(bench.fake.world.stock, 0)
    offers = bench.market.offers(NEED[bench.name])
    assert offer.id not in [one.id for one in offers if one.stock_word != "unknown"]


def test_offers_come_cheapest_first(bench: Bench) -> None:
    offers = bench.market.offers(Need())
    assert len(offers) >= 2
    prices = [one.price.amount for one in offers if one.price]
    assert prices == sorted(prices)


# ---------------------------------------------------------------- rent


def test_a_label_is_read_back_from_the_list(bench: Bench) -> None:
    id = bench.rent()
    assert [one.id for one in bench.labelled()] == [id]
    assert bench.held(id).label == LABEL


def test_a_lost_answer_is_found_by_its_label(bench: Bench) -> None:
    bench.fake.faults.lose_creates = [True]
    with pytest.raises(AnswerLost):
        bench.rent()
    assert len(bench.labelled()) == 1


def test_a_create_that_never_arrived_made_nothing(bench: Bench) -> None:
    bench.fake.faults.lose_creates = [False]
    with pytest.raises(AnswerLost):
        bench.rent()
    assert bench.labelled() == []


def test_a_create_is_sent_once(bench: Bench) -> None:
    bench.fake.faults.lose_creates = [True, True, True]
    with pytest.raises(AnswerLost):
        bench.rent()
    assert len(bench.fake.world.boxes) == 1


def test_a_server_that_fails_a_create_leaves_it_unknown(bench: Bench) -> None:
    order = RentOrder(LABEL, bench.offer(), public_key=PUBLIC_KEY)
    bench.fake.faults.down = True
    with pytest.raises((AnswerLost, LandlordDown)):
        bench.market.rent(order)


def test_a_create_answered_without_an_id_leaves_it_unknown(bench: Bench) -> None:
    bench.fake.faults.odd_made = True
    with pytest.raises(AnswerLost):
        bench.rent()
    assert len(bench.labelled()) == 1


def test_capacity_lost_after_the_offer_is_no_capacity(bench: Bench) -> None:
    order = RentOrder(LABEL, bench.offer(), disk_gb=50, public_key=PUBLIC_KEY)
    bench.fake.world.stock = dict.fromkeys(bench.fake.world.stock, 0)
    with pytest.raises(NoCapacity):
        bench.market.rent(order)
    assert bench.labelled() == []


def test_a_refused_create_is_no_capacity_and_can_be_repeated(bench: Bench) -> None:
    bench.fake.faults.refuse_creates = 1
    with pytest.raises(NoCapacity):
        bench.rent()
    assert bench.labelled() == []
    assert bench.rent()


def test_a_box_made_without_cards_shows_none(bench: Bench) -> None:
    bench.fake.faults.no_cards = True
    assert bench.held(bench.rent()).cards == 0


def test_the_box_lets_the_ordered_key_in(bench: Bench) -> None:
    assert bench.box(bench.rent()).public_key.split()[:2] == PUBLIC_KEY.split()[:2]


def test_a_box_shows_its_cards(bench: Bench) -> None:
    assert bench.held(bench.running()).cards == 1


# ---------------------------------------------------------------- asked too often


def test_a_read_waits_as_long_as_it_is_told(bench: Bench) -> None:
    before = bench.fake.clock()
    bench.fake.faults.too_fast = [7.0]
    bench.market.account()
    assert bench.fake.clock() - before >= (7.0 if bench.name != "vastai" else 1.0)


def test_a_read_waits_longer_each_time_when_nobody_says(bench: Bench) -> None:
    before = bench.fake.clock()
    bench.fake.faults.too_fast = [None, None, None]
    bench.market.holdings()
    assert bench.fake.clock() - before >= 1 + 2 + 4


def test_a_create_asked_too_fast_made_nothing(bench: Bench) -> None:
    order = RentOrder(LABEL, bench.offer(), disk_gb=50, public_key=PUBLIC_KEY)
    bench.market.account()
    bench.fake.faults.too_fast = [30.0] * 5
    with pytest.raises(TooFast) as caught:
        bench.market.rent(order)
    assert caught.value.retry_after_s == (30.0 if bench.name != "vastai" else None)
    bench.fake.faults.too_fast = []
    assert bench.labelled() == []


def test_endless_too_fast_ends_in_an_error(bench: Bench) -> None:
    bench.fake.faults.too_fast = [None] * 50
    with pytest.raises(TooFast):
        bench.market.holdings()


# ---------------------------------------------------------------- holdings


def test_no_address_until_there_is_one(bench: Bench) -> None:
    id = bench.rent()
    assert bench.held(id).address is None
    assert bench.held(id).state is State.STARTING
    bench.fake.clock.pass_s(600)
    held = bench.held(id)
    assert held.state is State.RUNNING
    assert held.address is not None
    assert held.address.port > 0
    assert held.address.user


def test_ssh_that_never_comes_is_no_address(bench: Bench) -> None:
    bench.fake.faults.no_ssh = True
    assert bench.held(bench.running()).address is None


def test_a_box_that_never_starts_stays_starting(bench: Bench) -> None:
    bench.fake.faults.never_starts = True
    id = bench.rent()
    bench.fake.clock.pass_s(24 * HOUR_S)
    assert bench.held(id).state is State.STARTING


def test_holdings_are_complete_over_pages(bench: Bench) -> None:
    made = _crowd(bench, 57)
    assert sorted(one.label for one in bench.market.holdings() if one.kind is Kind.BOX) == sorted(made)


def test_small_pages_are_read_to_the_end(bench: Bench) -> None:
    bench.fake.faults.page = 4
    made = _crowd(bench, 13)
    assert sorted(one.label for one in bench.market.holdings() if one.kind is Kind.BOX) == sorted(made)


def test_a_page_that_fails_is_an_error_and_no_short_list(paging_bench: Bench) -> None:
    bench = paging_bench
    _crowd(bench, 13)
    bench.fake.faults.page, bench.fake.faults.odd_page = 4, True
    with pytest.raises(LandlordError):
        bench.market.holdings()


def test_a_list_that_lags_shows_the_box_later(bench: Bench) -> None:
    bench.fake.faults.list_lag_s = 45
    bench.rent()
    assert bench.labelled() == []
    bench.fake.clock.pass_s(60)
    assert len(bench.labelled()) == 1


@pytest.mark.parametrize("fault", ["down", "garbled"])
def test_an_answer_that_cannot_be_read_is_no_answer(bench: Bench, fault: str) -> None:
    id = bench.running()
    setattr(bench.fake.faults, fault, True)
    for ask in (bench.market.holdings, lambda: bench.market.holding(id), bench.market.account):
        with pytest.raises(LandlordDown):
            ask()


def test_an_undocumented_state_is_unknown_and_still_held(bench: Bench) -> None:
    id = bench.running()
    bench.fake.faults.odd_state = "HIBERNATING"
    assert bench.held(id).state is State.UNKNOWN
    assert bench.held(id).raw_state == "HIBERNATING"
    assert [one.state for one in bench.labelled()] == [State.UNKNOWN]


def test_an_id_nobody_knows_is_proven_not_there(bench: Bench) -> None:
    assert bench.market.holding(_no_id(bench)) is None


def test_times_are_of_our_clock(bench: Bench) -> None:
    bench.fake.faults.clock_ahead_s = HOUR_S
    before = bench.fake.clock()
    id = bench.rent()
    made = bench.held(id).made_unix
    if made is not None:
        assert abs(made - before) < 5
    assert abs(bench.market.account().vendor_ahead_s - HOUR_S) < 5


# ---------------------------------------------------------------- acts


def test_a_park_keeps_the_box_and_its_storage_bill(parking_bench: Bench) -> None:
    bench = parking_bench
    held = bench.held(bench.parked())
    assert held.address is None
    _assert_rate(bench, held)


def test_each_act_can_be_asked_twice(parking_bench: Bench) -> None:
    bench = parking_bench
    id = bench.running()
    for verb, wanted in ((Act.PARK, State.PARKED), (Act.RESUME, State.RUNNING)):
        for _ in range(2):
            bench.market.act(id, verb)
            bench.fake.clock.pass_s(600)
        assert bench.held(id).state is wanted


def test_another_address_after_stop_and_start(parking_bench: Bench) -> None:
    bench = parking_bench
    id = bench.running()
    first = bench.held(id).address
    bench.market.act(id, Act.PARK)
    bench.fake.clock.pass_s(120)
    bench.market.act(id, Act.RESUME)
    bench.fake.clock.pass_s(600)
    assert bench.held(id).address != first


def test_a_resume_without_a_card_is_no_capacity(parking_bench: Bench) -> None:
    bench = parking_bench
    id = bench.parked()
    bench.fake.faults.start_fails = True
    if bench.name == "vastai":  # accepted; it stays scheduled and nobody says for how long
        bench.market.act(id, Act.RESUME)
        bench.fake.clock.pass_s(60)
        assert bench.held(id).state is not State.RUNNING
        return
    with pytest.raises(NoCapacity):
        bench.market.act(id, Act.RESUME)
    assert bench.held(id).state is State.PARKED


def test_a_released_box_is_gone_and_stays_gone(bench: Bench) -> None:
    id = bench.running()
    bench.release(id)
    assert bench.labelled() == []
    assert bench.market.act(id, Act.RELEASE)


def test_releasing_what_never_was_is_done(bench: Bench) -> None:
    assert bench.market.act(_no_id(bench), Act.RELEASE)


def test_a_slow_destroy_is_seen_until_it_is_over(bench: Bench) -> None:
    id = bench.running()
    bench.fake.faults.destroy_s = 300
    while not bench.market.act(id, Act.RELEASE):
        bench.fake.clock.pass_s(10)
    held = bench.held(id)
    assert held.state is not State.GONE
    bench.fake.clock.pass_s(400)
    assert bench.market.holding(id) is None


def test_a_lost_act_says_that_it_is_unknown(bench: Bench) -> None:
    id = bench.running()
    bench.fake.faults.lose_acts = [True]
    with pytest.raises(AnswerLost):
        bench.market.act(id, Act.RELEASE)
    bench.release(id)


def test_an_act_on_nothing_is_refused(parking_bench: Bench) -> None:
    with pytest.raises(LandlordSaidNo):
        parking_bench.market.act(_no_id(parking_bench), Act.PARK)


def test_what_a_landlord_cannot_do_is_refused(bench: Bench) -> None:
    id = bench.running()
    with pytest.raises(LeaseholdError):
        bench.market.act(id, Act.DELETE_STORAGE)
    if bench.name in CANNOT_PARK:
        with pytest.raises(LandlordSaidNo):
            bench.market.act(id, Act.PARK)
    assert bench.held(id).state is State.RUNNING


# ---------------------------------------------------------------- money


def test_the_rate_is_what_is_billed_in_every_state(bench: Bench) -> None:
    id = bench.rent()
    _assert_rate(bench, bench.held(id))
    bench.fake.clock.pass_s(600)
    _assert_rate(bench, bench.held(id))


def test_the_rates_of_a_life_add_up_to_the_bill(bench: Bench) -> None:
    id = bench.rent()
    counted = Decimal(0)
    for step in range(120):
        rate = sum((one.rate.amount for one in bench.market.holdings() if one.rate), Decimal(0))
        counted += rate * 30 / 3600
        bench.fake.clock.pass_s(30)
        if step == 60 and bench.name not in CANNOT_PARK:
            bench.market.act(id, Act.PARK)
    bench.fake.world.settle()
    assert float(counted) == pytest.approx(float(bench.fake.world.spent), rel=0.01)


def test_the_landlords_own_bill_is_read_back(bench: Bench) -> None:
    start = bench.fake.clock()
    id = bench.running()
    bench.fake.clock.pass_s(5 * HOUR_S)
    bench.release(id)
    bill = bench.market.billed(id, start)
    if bench.name not in TELLS_BILL:
        assert bill is None
        return
    assert bill is not None
    assert float(bill.amounts[0][1]) == pytest.approx(float(bench.box(id).billed), rel=0.01)


def test_a_price_that_rose_is_seen(bench: Bench) -> None:
    before = bench.offer().price
    bench.fake.faults.price_factor = Decimal(2)
    after = bench.offer().price
    assert (before and before.amount * 2) == (after and after.amount)
    _assert_rate(bench, bench.held(bench.running()))


def test_an_empty_balance_is_never_read_as_running(bench: Bench) -> None:
    if bench.fake.world.balance is None:
        bench.fake.world.balance = Decimal(1)
    id = bench.running()
    bench.fake.world.balance = Decimal("0.01")
    bench.fake.clock.pass_s(10 * HOUR_S)
    held = bench.market.holding(id)
    assert held is None or held.state is not State.RUNNING


# ---------------------------------------------------------------- small parts


def _assert_rate(bench: Bench, held: Holding) -> None:
    assert held.rate is not None
    assert float(held.rate.amount) == pytest.approx(float(bench.fake.world.rate_of(bench.box(held.id))), rel=0.01)


def _crowd(bench: Bench, count: int) -> list[str]:
    """Rent many boxes behind the adapter's back."""
    bench.fake.world.stock = dict.fromkeys(bench.fake.world.stock, count)
    labels = [f"lease-crowd-{number:03d}" for number in range(count)]
    offer = bench.offer()
    for label in labels:
        bench.fake.clock.pass_s(15)
        bench.market.rent(RentOrder(label, offer, disk_gb=50, public_key=PUBLIC_KEY))
    return labels


def _no_id(bench: Bench) -> str:
    return {"vastai": "99999999", "lambda": "0" * 32, "autodl-pro": "pro-000000000000"}.get(bench.name, "pz000000")
