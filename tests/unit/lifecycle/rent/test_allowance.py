"""Approvals of a rent: the typed ceiling, the standing approval's price, count, date and landlords."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.errors import Refusal, UserError
from leasehold.lifecycle.rent.allowance import Allowance, RentAsk, allowances, grant, revoke, standing_yes, typed
from leasehold.model.run.receipt import Strength

from .bed import Bed, usd

ASK = RentAsk("toy-1", ("runpod",), usd("0.80"))


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def _allow(bed: Bed, most: str = "1", count: int = 2, markets: tuple[str, ...] = ()) -> None:
    wanted = Allowance("a1", usd(most), count, bed.clock() + 3600, "me", 0, markets)
    grant(bed.home, wanted, lambda question: f"allow {count} rents up to {usd(most)}", bed.clock())


def test_a_rent_is_typed_with_its_ceiling() -> None:
    assert typed(ASK, lambda question: "rent up to 0.80USD/h", 0.0).strength is Strength.TYPED
    with pytest.raises(Refusal):
        typed(ASK, lambda question: "yes", 0.0)


def test_a_standing_approval_covers_rents_below_its_price(bed: Bed) -> None:
    _allow(bed)
    given = standing_yes(bed.home, ASK, bed.clock())
    assert given is not None and given.strength is Strength.STANDING


@pytest.mark.parametrize("most", ["0.79", "0.10"])
def test_a_standing_approval_covers_nothing_dearer(bed: Bed, most: str) -> None:
    _allow(bed, most)
    assert standing_yes(bed.home, ASK, bed.clock()) is None


def test_a_standing_approval_ends_at_its_date(bed: Bed) -> None:
    _allow(bed)
    bed.clock.pass_s(3601)
    assert standing_yes(bed.home, ASK, bed.clock()) is None


def test_a_clock_set_back_revives_no_standing_approval(bed: Bed) -> None:
    _allow(bed)
    assert standing_yes(bed.home, ASK, bed.clock() - 10) is None


def test_a_standing_approval_names_its_landlords(bed: Bed) -> None:
    _allow(bed, markets=("vastai",))
    assert standing_yes(bed.home, ASK, bed.clock()) is None


def test_a_standing_approval_is_used_up_by_its_count(bed: Bed) -> None:
    bed.market()
    _allow(bed, count=1)
    bed.rent("toy-1")
    assert allowances(bed.home, bed.clock())[0].left == 0
    bed.rent("toy-2")
    assert len(bed.asked) == 1


def test_a_request_without_a_box_does_not_use_it_up(bed: Bed) -> None:
    market = bed.market()
    _allow(bed, count=1)
    market.lose_answers = [False]
    with pytest.raises(Refusal):
        bed.rent()
    assert allowances(bed.home, bed.clock())[0].left == 1


def test_a_withdrawn_approval_covers_nothing(bed: Bed) -> None:
    _allow(bed)
    revoke(bed.home)
    assert standing_yes(bed.home, ASK, bed.clock()) is None


def test_a_standing_approval_lasts_a_month_at_most(bed: Bed) -> None:
    wanted = Allowance("a1", usd("1"), 1, bed.clock() + 32 * 86400, "me", 0)
    with pytest.raises(UserError):
        grant(bed.home, wanted, lambda question: "", bed.clock())
