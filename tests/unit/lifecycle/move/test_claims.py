"""The moves of a run in the ledger: which one is pending, under which epoch, and which home won."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leasehold.errors import Refusal
from leasehold.kit.refuge.epochs import Claim
from leasehold.ledger.store import Ledger
from leasehold.lifecycle.move import claims
from leasehold.lifecycle.move.places import HomePlace
from leasehold.lifecycle.records.orders import Where

RUN = "toy-0123456789"
TO = Where("b", "/root/leasehold")


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    made = Ledger(tmp_path / "ledger.sqlite")
    yield made
    made.close()


@pytest.fixture
def place(tmp_path: Path) -> HomePlace:
    return HomePlace(tmp_path / "results")


def begin(ledger: Ledger, highest: int = 1) -> claims.Move:
    return claims.begin(ledger, (RUN, "a-1", "a"), TO, highest)


def test_a_move_is_pending_until_the_run_goes_on(ledger: Ledger) -> None:
    assert claims.pending(ledger, RUN) is None
    move = begin(ledger)
    assert claims.pending(ledger, RUN) == move and move.goes_to(TO)
    assert not move.goes_to(Where("b", "/elsewhere"))
    ledger.append(claims.MOVED, lease="b-2", run=RUN, left="a-1")
    assert claims.pending(ledger, RUN) is None


def test_each_move_has_a_later_epoch_and_a_nonce_of_its_own(ledger: Ledger) -> None:
    first = begin(ledger, 0)
    assert first.epoch == 2, "the first box claims 1 by itself"
    second, third = begin(ledger), begin(ledger, 9)
    assert (second.epoch, third.epoch) == (3, 10)
    assert len({first.nonce, second.nonce, third.nonce}) == 3


def test_a_claim_may_be_repeated_by_the_one_who_made_it(ledger: Ledger, place: HomePlace) -> None:
    move = begin(ledger)
    assert claims.claim_everywhere(ledger, [place], move) == []
    assert claims.claim_everywhere(ledger, [place], move) == []
    highest, claim = claims.highest_in([place], RUN)
    assert (highest, claim["box"], claim["home"]) == (2, "b", ledger.home_id)


@pytest.mark.parametrize("epoch", [2, 3])
def test_the_home_that_comes_second_is_refused_with_the_others_name(
    ledger: Ledger, place: HomePlace, epoch: int
) -> None:
    place.claim(RUN, Claim(epoch, "theirs", "feedface", "c", "c-9", 1.0))
    with pytest.raises(Refusal, match=r"another home \(feedface\) moves toy-0123456789 to c|moves toy") as refused:
        claims.claim_everywhere(ledger, [place], begin(ledger))
    assert refused.value.code == "move.raced"


def test_a_place_that_fails_is_named_and_does_not_stop_the_others(ledger: Ledger, place: HomePlace) -> None:
    Path(place.where).parent.mkdir()
    Path(place.where).write_text("a file where the folder should be")
    (problem,) = claims.claim_everywhere(ledger, [place], begin(ledger))
    assert problem.startswith(place.where)
