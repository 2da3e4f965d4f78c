"""Renting: the intent is on disk before the create, a lost answer is settled, and nothing is rented twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leasehold.errors import Refusal
from leasehold.ledger import books, box_book
from leasehold.ledger import rentals as book
from leasehold.ledger.store import Ledger
from leasehold.lifecycle.rent.allowance import RentAsk, Yes
from leasehold.lifecycle.rentals import settle as settling
from leasehold.lifecycle.rentals.settle import settle_all
from leasehold.model.lease.rental import RentalState, home_of
from leasehold.platforms.landlords.market import State

from .bed import Bed, Killed


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def test_a_rent_opens_a_lease_that_counts_from_the_request(bed: Bed) -> None:
    market = bed.market()
    rental = bed.rent()
    lease = books.find_lease(bed.home.ledger, rental.lease)
    entry = box_book.find(bed.home.ledger, rental.box)
    assert (lease.box, lease.price, lease.rate) == ("runpod-1", "0.40USD/h", "0.40USD/h")
    assert entry is not None and (entry.landlord, entry.holding) == ("runpod", "mem-1")
    assert market.holdings()[0].label == rental.label
    assert home_of(rental.label) == bed.home.ledger.home_id[:6]


def test_the_intent_is_in_the_ledger_before_the_create(bed: Bed) -> None:
    market = bed.market()
    seen: list[list[RentalState]] = []
    create = market.rent

    def rent(order: Any) -> str:
        seen.append([one.state for one in book.rentals(Ledger(bed.home.ledger.path))])
        return create(order)

    market.rent = rent  # type: ignore[method-assign]
    bed.rent()
    assert seen == [[RentalState.INTENDED]]


def test_a_lost_answer_with_a_box_is_adopted_by_its_label(bed: Bed) -> None:
    market = bed.market()
    market.lose_answers = [True]
    rental = bed.rent()
    assert rental.state is RentalState.HELD
    assert len(market.holdings()) == 1


def test_a_lost_answer_without_a_box_is_proven_before_another_create(bed: Bed) -> None:
    market = bed.market()
    market.lose_answers = [False]
    bed.market("vastai", "0.50")
    began = bed.clock()
    rental = bed.rent(approve=bed.yes)
    assert rental.market == "vastai"
    assert bed.clock() - began >= settling.SETTLE_S
    assert [one.state for one in book.rentals(bed.home.ledger)] == [RentalState.ABSENT, RentalState.HELD]


def test_nothing_is_rented_while_an_earlier_request_is_unknown(bed: Bed) -> None:
    market = bed.market()
    market.lose_answers = [True]
    lists = market.holdings
    market.holdings = _down  # type: ignore[method-assign]
    with pytest.raises(Refusal) as refused:
        bed.rent()
    assert refused.value.code == "rent.unsettled"
    bed.market("vastai")
    with pytest.raises(Refusal):
        bed.rent("toy-2")
    market.holdings = lists  # type: ignore[method-assign]
    assert bed.rent().holding == "mem-1"
    assert len(market.holdings()) == 1


def _down() -> Any:
    from leasehold.errors import LandlordDown

    raise LandlordDown("landlord.down", "runpod answered 503")


def test_no_capacity_goes_to_the_next_offer_under_the_same_yes(bed: Bed) -> None:
    first, _ = bed.market(), bed.market("vastai")
    offers = bed.offers()
    first.stock = 0
    from leasehold.lifecycle.rent.rent_box import RentWish, rent_one

    rental = rent_one(bed.desk, RentWish("toy-1", ("runpod", "vastai")), offers, bed.yes)
    assert rental.market == "vastai"
    assert len(bed.asked) == 1


def test_a_dearer_offer_needs_another_yes(bed: Bed) -> None:
    first, _ = bed.market(), bed.market("vastai", "0.55")
    offers = bed.offers()
    first.stock = 0
    from leasehold.lifecycle.rent.rent_box import RentWish, rent_one

    rent_one(bed.desk, RentWish("toy-1", ("runpod", "vastai")), offers, bed.yes)
    assert [ask.phrase for ask in bed.asked] == ["rent up to 0.40USD/h", "rent up to 0.55USD/h"]


def test_without_a_yes_nothing_is_asked_for(bed: Bed) -> None:
    market = bed.market()

    def no(ask: RentAsk) -> Yes:
        raise Refusal("approval.not_given", "no")

    with pytest.raises(Refusal):
        bed.rent(approve=no)
    assert not market.holdings()
    assert not book.rentals(bed.home.ledger)


def test_the_same_run_gets_the_box_that_was_rented_for_it(bed: Bed) -> None:
    market = bed.market()
    assert bed.rent().lease == bed.rent().lease
    assert len(market.holdings()) == 1


def test_two_homes_rent_two_boxes_and_each_knows_its_own(tmp_path: Path) -> None:
    one, other = Bed(tmp_path / "one"), Bed(tmp_path / "other")
    shared = one.market()
    other.markets, other.clock = one.markets, one.clock
    first, second = one.rent(), other.rent()
    assert first.holding != second.holding
    assert len(shared.holdings()) == 2


@pytest.mark.parametrize("moment", ["before", "during", "after"])
@pytest.mark.parametrize("event", ["rent_intended", "rent_made"])
def test_a_kill_at_any_step_loses_no_box(bed: Bed, monkeypatch: pytest.MonkeyPatch, event: str, moment: str) -> None:
    market = bed.market()

    def pause(name: str, phase: str) -> None:
        if (name, phase) == (f"home.{event}", moment):
            raise Killed

    monkeypatch.setattr("leasehold.ledger.store.pause_at", pause)
    with pytest.raises(Killed):
        bed.rent()
    monkeypatch.undo()
    again = Bed(bed.folder, bed.clock, bed.markets)
    bed.home.ledger.close()
    settle_all(again.desk)
    made = [one for one in market.holdings() if one.state is not State.GONE]
    held = {one.holding for one in book.rentals(again.home.ledger, RentalState.HELD)}
    assert {one.id for one in made} == held
    again.rent()
    assert len(market.holdings()) == 1
