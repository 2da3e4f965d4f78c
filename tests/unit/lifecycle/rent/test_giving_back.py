"""Giving a rented box back: through the one gate, polled to its end, with what is left on the meter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.errors import AnswerLost, LinkError, Refusal
from leasehold.ledger import books
from leasehold.ledger import rentals as book
from leasehold.lifecycle.approval import approve
from leasehold.lifecycle.ending import rented_end, teardown, teardown_readings
from leasehold.lifecycle.rent.by_hand import delete_storage
from leasehold.lifecycle.rentals.api_landlord import ApiLandlord
from leasehold.model.lease.lease import Lease
from leasehold.model.lease.rental import RentalState
from leasehold.model.run.receipt import Approval, Strength
from leasehold.model.values.money import Money
from leasehold.platforms.contract import BoxState
from leasehold.platforms.landlords.market import Act, Kind, State
from tests.fakes.landlords.memory import MemoryMarket

from .bed import Bed, usd

Down = Callable[..., BoxState]


class Silent:
    """A box that does not answer."""

    def connect(self) -> Any:
        raise LinkError("link.timeout", "the box does not answer")


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    bed = Bed(tmp_path)
    clock = SimpleNamespace(time=bed.clock, monotonic=bed.clock, sleep=bed.clock.pass_s)
    for module in (teardown, rented_end, approve):
        monkeypatch.setattr(module, "time", clock)
    for module in (teardown, teardown_readings):
        monkeypatch.setattr(module, "box_of", lambda home, lease: Silent())
    monkeypatch.setattr(rented_end, "rented_landlord", lambda home, lease: _landlord(bed))
    return bed


def _landlord(bed: Bed) -> ApiLandlord:
    return ApiLandlord(bed.desk, book.rentals(bed.home.ledger)[0])


def _lease(bed: Bed) -> Lease:
    return books.leases(bed.home.ledger)[0]


def _down(bed: Bed, verb: str = "") -> BoxState:
    def yes(plan: teardown.TeardownPlan) -> Approval:
        return Approval(approve.new_request(plan.readings), Strength.TYPED, "me", bed.clock())

    wanted = teardown.Wanted(verb, "looked at the console")
    return teardown.tear_down(bed.home, _lease(bed), wanted, _landlord(bed), yes, bed.notes.append)


def test_a_box_that_never_answered_can_be_given_back(bed: Bed) -> None:
    market = bed.market()
    bed.rent()
    assert _down(bed) is BoxState.GONE
    assert not market.holdings()
    assert (_lease(bed).open, book.rentals(bed.home.ledger)[0].state) == (False, RentalState.ENDED)


def test_a_silent_box_that_was_reached_before_is_kept(bed: Bed) -> None:
    market = bed.market()
    rental = bed.rent()
    bed.home.ledger.append("rent_ready", lease=rental.lease, label=rental.label, market="runpod", after_s=1.0)
    bed.clock.pass_s(120)
    with pytest.raises(Refusal) as refused:
        _down(bed)
    assert refused.value.code == "teardown.refused"
    assert market.holdings()


def test_a_parked_box_with_results_missing_is_kept(bed: Bed) -> None:
    from leasehold.model.job.job import Artifact, Job
    from leasehold.model.run.plan import Plan

    market = bed.market()
    rental = bed.rent()
    plan = Plan("toy-1", Job("toy", "x", (Artifact("r.json", "json"),)), "t" * 64, "runpod", ("setsid",), ("main",))
    place = {"box": rental.box, "project": "/p", "results": "/r", "name": "toy"}
    bed.home.ledger.append("run_planned", lease=rental.lease, run="toy-1", plan=plan.as_dict(), **place)
    bed.home.ledger.append("run_seen", lease=rental.lease, run="toy-1", state="running", seq=3)
    market.act(rental.holding, Act.PARK)
    with pytest.raises(Refusal):
        _down(bed)
    assert market.holdings()


def test_a_lost_answer_is_asked_for_again(bed: Bed) -> None:
    market = bed.market()
    bed.rent()
    act, calls = market.act, []

    def lossy(id: str, verb: Act, price: Any = None) -> bool:
        calls.append(verb)
        if len(calls) == 1:
            raise AnswerLost("landlord.answer_lost", "runpod did not answer")
        return act(id, verb, price)

    market.act = lossy  # type: ignore[method-assign]
    assert _down(bed) is BoxState.GONE
    assert calls == [Act.RELEASE, Act.RELEASE]


def test_a_destroy_that_never_ends_stays_on_the_meter(bed: Bed) -> None:
    market = bed.market()
    bed.rent()
    market.act = lambda id, verb, price=None: True  # type: ignore[method-assign]
    assert _down(bed) is BoxState.HELD
    assert _lease(bed).open
    assert "is still there" in bed.told("unknown")[-1]


def test_the_bill_is_compared_with_our_meter(bed: Bed) -> None:
    bed.market()
    bed.rent()
    bed.clock.pass_s(3600)
    _down(bed)
    (event,) = bed.home.ledger.events(kind="bill_read")
    assert abs(Decimal(event.data["billed"]["USD"]) / Decimal(event.data["metered"]["USD"]) - 1) < Decimal("0.01")
    assert not [text for text in bed.told("warning") if "differ" in text]


def test_a_bill_that_differs_is_a_warning(bed: Bed) -> None:
    market = bed.market()
    bed.rent()
    bed.clock.pass_s(3600)
    market.billed = lambda id, since: Money.of("0.60", "USD")  # type: ignore[method-assign]
    _down(bed)
    assert "differ by more than 1 %" in bed.told("warning")[-1]


def test_a_parked_box_goes_on_at_its_own_rate(bed: Bed) -> None:
    market = bed.market()
    bed.rent()
    bed.clock.pass_s(120)
    market.act("mem-1", Act.PARK)
    assert _down(bed, "stop") is BoxState.PARKED
    assert (_lease(bed).parked, _lease(bed).rate) == (True, "0.02USD/h")


@pytest.fixture
def with_volume(bed: Bed) -> MemoryMarket:
    """A landlord whose box leaves a volume that bills."""
    market = bed.market()
    bed.rent()
    lists, one, left = market.holdings, market.holding, [True]

    def volume() -> Any:
        box = next(iter(market._boxes.values()))
        return replace(
            box, id="volume/v1", kind=Kind.VOLUME, label="", of=box.id, state=State.RUNNING, rate=usd("0.01")
        )

    def act(id: str, verb: Act, price: Any = None) -> bool:
        if id == "volume/v1":
            left.clear()
            return True
        return release(id, verb, price)

    release = market.act
    market.act = act  # type: ignore[method-assign]
    market.holdings = lambda: (*lists(), *((volume(),) if left else ()))  # type: ignore[method-assign]
    market.holding = lambda id: (volume() if left else None) if id == "volume/v1" else one(id)  # type: ignore[method-assign]
    return market


def test_storage_left_behind_keeps_its_lease_and_rate(bed: Bed, with_volume: MemoryMarket) -> None:
    assert _down(bed) is BoxState.GONE
    assert (_lease(bed).open, _lease(bed).parked, _lease(bed).rate) == (True, True, "0.01USD/h")


def test_storage_is_deleted_by_its_own_approval(bed: Bed, with_volume: MemoryMarket) -> None:
    _down(bed)
    with pytest.raises(Refusal):
        delete_storage(bed.desk, "runpod", "volume/v1", lambda question: "yes")
    assert _lease(bed).open
    delete_storage(bed.desk, "runpod", "volume/v1", lambda question: "delete volume/v1")
    assert not _lease(bed).open
