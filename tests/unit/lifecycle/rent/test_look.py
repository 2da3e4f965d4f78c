"""The look at what landlords bill: orphans are named, strangers are left alone, silence is unknown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.errors import LandlordDown, Refusal
from leasehold.ledger import books
from leasehold.ledger import rentals as book
from leasehold.lifecycle.rent.by_hand import adopt_box
from leasehold.lifecycle.rentals.first_look import KEY_VARIABLES, FirstLook
from leasehold.lifecycle.rentals.look import Whose, ask_all, carry_in, prove_missing, say_look
from leasehold.model.lease.rental import RentalState, label_of
from leasehold.platforms.landlords.market import Act, Kind, Offer, RentOrder
from leasehold.platforms.landlords.markets import VENDORS

from .bed import Bed


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def _look(bed: Bed) -> list[tuple[str, Whose]]:
    found = carry_in(bed.desk, ask_all(bed.desk, list(bed.markets), 10.0))
    return [(one.holding.id, one.whose) for one in found.found]


def _offer(bed: Bed) -> Offer:
    from leasehold.platforms.landlords.market import Need

    return bed.markets["runpod"].offers(Need())[0]


def test_a_held_box_is_not_reported(bed: Bed) -> None:
    bed.market()
    bed.rent()
    assert _look(bed) == [("mem-1", Whose.HELD)]
    look = carry_in(bed.desk, ask_all(bed.desk, ["runpod"], 10.0))
    assert say_look(look, bed.clock()) == []


def test_a_box_nobody_holds_is_named_with_its_price_and_age(bed: Bed) -> None:
    market = bed.market()
    market.rent(RentOrder(label_of(bed.home.ledger.home_id, "0123456789"), _offer(bed)))
    bed.clock.pass_s(3 * 3600)
    look = carry_in(bed.desk, ask_all(bed.desk, ["runpod"], 10.0))
    (said,) = say_look(look, bed.clock())
    assert "runpod bills 0.4 USD/h for box mem-1" in said
    assert "which no lease of yours holds since 3 h" in said


def test_a_strangers_box_is_shown_and_never_touched(bed: Bed) -> None:
    market = bed.market()
    market.rent(RentOrder("my-own-box", _offer(bed)))
    assert _look(bed) == [("mem-1", Whose.STRANGER)]
    with pytest.raises(Refusal) as refused:
        adopt_box(bed.desk, "runpod", "mem-1")
    assert refused.value.code == "landlord.not_ours"


def test_another_homes_box_is_told_apart(bed: Bed) -> None:
    market = bed.market()
    market.rent(RentOrder(label_of("ffffffffffff", "0123456789"), _offer(bed)))
    assert _look(bed) == [("mem-1", Whose.OTHER_HOME)]


def test_a_landlord_that_fails_is_unknown_and_never_nothing(bed: Bed) -> None:
    market = bed.market()

    def down() -> tuple[()]:
        raise LandlordDown("landlord.down", "runpod answered 503")

    market.holdings = down  # type: ignore[method-assign]
    look = carry_in(bed.desk, ask_all(bed.desk, ["runpod"], 10.0))
    assert say_look(look, bed.clock()) == ["what runpod bills is unknown: runpod answered 503"]


def test_storage_of_a_held_box_counts_as_held(bed: Bed) -> None:
    market = bed.market()
    rental = bed.rent()
    box = market.holdings()[0]
    volume = replace(box, id="volume/v1", kind=Kind.VOLUME, label="", of=rental.holding)
    market.holdings = lambda: (box, volume)  # type: ignore[method-assign]
    assert {whose for _, whose in _look(bed)} == {Whose.HELD}


def test_a_box_the_landlord_took_away_closes_its_lease(bed: Bed) -> None:
    market = bed.market()
    rental = bed.rent()
    market.act(rental.holding, Act.RELEASE)
    look = carry_in(bed.desk, ask_all(bed.desk, ["runpod"], 10.0))
    prove_missing(bed.desk, look)
    assert not books.find_lease(bed.home.ledger, rental.lease).open
    assert book.rentals(bed.home.ledger)[0].state is RentalState.ENDED


def test_a_list_that_misses_a_box_closes_nothing(bed: Bed) -> None:
    market = bed.market()
    rental = bed.rent()
    market.holdings = lambda: ()  # type: ignore[method-assign]
    look = carry_in(bed.desk, ask_all(bed.desk, ["runpod"], 10.0))
    prove_missing(bed.desk, look)
    assert books.find_lease(bed.home.ledger, rental.lease).open


def test_adopting_a_box_on_a_closed_lease_opens_it_again(bed: Bed) -> None:
    bed.market()
    rental = bed.rent()
    bed.home.ledger.append("lease_closed", lease=rental.lease, by="me", said="the meter is stopped")
    assert _look(bed) == [("mem-1", Whose.ORPHAN)]
    adopt_box(bed.desk, "runpod", "mem-1")
    assert books.find_lease(bed.home.ledger, rental.lease).open
    assert _look(bed) == [("mem-1", Whose.HELD)]


def test_the_variables_of_the_first_look_are_those_of_the_landlords() -> None:
    assert set(KEY_VARIABLES) == {name for entry in VENDORS for name in entry.variables}


def test_a_home_without_landlords_asks_nobody(tmp_path: Path) -> None:
    bed = Bed(tmp_path)
    look = FirstLook(bed.home, {})
    look.begin()
    assert look.lines() == []
    assert not (bed.home.path / "cache" / "landlords.json").exists()
