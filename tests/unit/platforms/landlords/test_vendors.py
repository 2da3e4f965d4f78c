"""What is peculiar to one landlord, against its fake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import cast

import pytest

from leasehold.errors import BadKey, LandlordDown, LandlordSaidNo
from leasehold.model.values.money import HourlyPrice
from leasehold.platforms.landlords.market import Act, Holding, Kind, Market, Need, RentOrder, State, Why
from leasehold.platforms.landlords.wishes import fits_card
from tests.fakes.landlords.autodl import FakeAutoDl
from tests.fakes.landlords.lambdalabs import FakeLambda
from tests.fakes.landlords.paperspace import FakePaperspace
from tests.fakes.landlords.runpod import FakeRunPod
from tests.fakes.landlords.server import Call, Said
from tests.fakes.landlords.street import fake_landlord, market_on
from tests.fakes.landlords.vastai import FakeVastAi

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFakeFakeFakeFakeFakeFakeFakeFakeFakeFake me@home"
LABEL = "lease-0a1b2c3d"


def _rent(market: Market, need: Need, **more: object) -> str:
    order = RentOrder(LABEL, market.offers(need)[0], disk_gb=50, public_key=KEY)
    return market.rent(replace(order, **more))  # type: ignore[arg-type]


def _stores(market: Market) -> list[Holding]:
    return [one for one in market.holdings() if one.kind is not Kind.BOX]


# ---------------------------------------------------------------- RunPod


@pytest.fixture
def runpod() -> Iterator[tuple[FakeRunPod, Market]]:
    """RunPod's fake and our adapter."""
    with fake_landlord("runpod") as fake:
        yield cast("FakeRunPod", fake), market_on(fake)


def test_runpod_a_volume_bills_until_it_is_deleted(runpod: tuple[FakeRunPod, Market]) -> None:
    fake, market = runpod
    volume = fake.add_volume("data", 100)
    held = _stores(market)
    assert [(one.id, one.label, one.size_gb) for one in held] == [(f"volume/{volume.id}", "data", 100.0)]
    assert held[0].rate == HourlyPrice(Decimal("7") / 730, "USD")
    fake.clock.pass_s(36000)
    billed = market.billed(held[0].id, fake.clock() - 36000)
    assert billed is not None
    assert float(billed.amounts[0][1]) == pytest.approx(70 / 730, rel=0.01)
    for _ in range(2):
        assert market.act(held[0].id, Act.DELETE_STORAGE)
    assert market.holding(held[0].id) is None


def test_runpod_a_volume_in_use_is_not_deleted(runpod: tuple[FakeRunPod, Market]) -> None:
    fake, market = runpod
    volume = fake.add_volume("data", 100)
    _rent(market, Need(("4090",)), volumes=(f"volume/{volume.id}",))
    with pytest.raises(LandlordSaidNo, match="attached|refused"):
        market.act(f"volume/{volume.id}", Act.DELETE_STORAGE)


def test_runpod_a_volume_costs_less_above_one_terabyte(runpod: tuple[FakeRunPod, Market]) -> None:
    fake, market = runpod
    fake.add_volume("big", 2000)
    assert _stores(market)[0].rate == HourlyPrice((Decimal(70) + Decimal(50)) / 730, "USD")


def test_runpod_pods_of_a_cluster_are_held_too(runpod: tuple[FakeRunPod, Market]) -> None:
    fake, market = runpod
    id = _rent(market, Need(("4090",)))
    fake.world.boxes[id].more["cluster"] = {"id": "cl1", "rank": 0}
    assert [one.id for one in market.holdings()] == [id]
    with pytest.raises(LandlordSaidNo):
        market.act(id, Act.RELEASE)


def test_runpod_a_stopped_pod_costs_twice_the_volume(runpod: tuple[FakeRunPod, Market]) -> None:
    fake, market = runpod
    id = _rent(market, Need(("4090",)))
    fake.clock.pass_s(600)
    market.act(id, Act.PARK)
    held = market.holding(id)
    assert held is not None
    assert held.rate == HourlyPrice(Decimal("0.20") * 50 / 730, "USD")


def test_runpod_empty_balance_takes_pods_without_a_volume(runpod: tuple[FakeRunPod, Market]) -> None:
    fake, market = runpod
    volume = fake.add_volume("data", 100)
    bare = _rent(market, Need(("4090",)))
    kept = _rent(market, Need(("4090",)), volumes=(f"volume/{volume.id}",))
    fake.world.balance = Decimal("0.10")
    fake.clock.pass_s(3600)
    assert market.holding(bare) is None
    held = market.holding(kept)
    assert held is not None
    assert held.state is State.PARKED
    with pytest.raises(LandlordSaidNo, match="money"):
        _rent(market, Need(("4090",)))


def test_runpod_a_rule_that_is_broken_is_not_no_capacity(runpod: tuple[FakeRunPod, Market]) -> None:
    _, market = runpod
    offer = market.offers(Need(("4090",)))[0]
    with pytest.raises(LandlordSaidNo, match="refused"):
        market.rent(RentOrder(LABEL, offer, volumes=("volume/nowhere",)))


# ---------------------------------------------------------------- vast.ai


@pytest.fixture
def vast() -> Iterator[tuple[FakeVastAi, Market]]:
    """vast.ai's fake and our adapter."""
    with fake_landlord("vastai") as fake:
        yield cast("FakeVastAi", fake), market_on(fake)


def _spot(fake: FakeVastAi, market: Market) -> str:
    need = Need(("4090",), spot=True)
    id = _rent(market, need, bid=HourlyPrice(Decimal("0.18"), "USD"))
    fake.clock.pass_s(600)
    return id


def test_vast_a_bid_is_rented_at_its_price(vast: tuple[FakeVastAi, Market]) -> None:
    fake, market = vast
    held = market.holding(_spot(fake, market))
    assert held is not None
    assert held.rate is not None
    assert float(held.rate.amount) == pytest.approx(0.18 + 50 * 0.15 / 730, rel=0.01)


def test_vast_outbid_is_told_and_a_raised_bid_resumes(vast: tuple[FakeVastAi, Market]) -> None:
    fake, market = vast
    id = _spot(fake, market)
    fake.outbid(101, Decimal("0.25"))
    held = market.holding(id)
    assert held is not None
    assert (held.state, held.why, held.address) == (State.PARKED, Why.OUTBID, None)
    market.act(id, Act.RAISE_BID, HourlyPrice(Decimal("0.30"), "USD"))
    fake.clock.pass_s(600)
    held = market.holding(id)
    assert held is not None
    assert (held.state, held.why) == (State.RUNNING, None)


def test_vast_no_money_is_the_reason_of_a_stop(vast: tuple[FakeVastAi, Market]) -> None:
    fake, market = vast
    id = _rent(market, Need(("4090",)))
    fake.world.balance = Decimal("0.10")
    fake.clock.pass_s(3600)
    held = market.holding(id)
    assert held is not None
    assert (held.state, held.why) == (State.PARKED, Why.BALANCE)


def test_vast_a_page_of_a_proxy_does_not_prove_gone(vast: tuple[FakeVastAi, Market]) -> None:
    fake, market = vast
    id = _rent(market, Need(("4090",)))
    page = Said(404, raw=b"<html>not found</html>", headers={"Content-Type": "text/html"})
    fake.bad_key = lambda call: page  # type: ignore[method-assign]
    with pytest.raises(LandlordDown):
        market.holding(id)
    with pytest.raises(LandlordDown):
        market.act(id, Act.RELEASE)


def test_vast_a_missing_key_is_a_bad_key(vast: tuple[FakeVastAi, Market]) -> None:
    fake, market = vast
    said = fake.bad_key(Call("GET", "/", {}, {}, None))
    assert said is not None
    fake.bad_key = lambda call: said  # type: ignore[method-assign]
    with pytest.raises(BadKey):
        market.holdings()


def test_vast_volumes_of_both_kinds_are_asked_for(vast: tuple[FakeVastAi, Market]) -> None:
    fake, market = vast
    fake.add_volume("data", 100)
    assert [one.label for one in _stores(market)] == ["data"]
    asked = [call.query for call in fake.calls if call.path == "/api/v0/volumes/"]
    assert asked[-1]["type"] == "all_volume"


def test_vast_a_list_shorter_than_its_count_is_an_error(vast: tuple[FakeVastAi, Market]) -> None:
    fake, market = vast
    _rent(market, Need(("4090",)))
    whole = fake._routed
    short = {"success": True, "instances_found": 0, "total_instances": 1, "next_token": None, "instances": []}
    fake._routed = lambda call: Said(200, short) if "v1/instances" in call.path else whole(call)  # type: ignore[method-assign]
    with pytest.raises(LandlordDown, match="0 rows came of 1"):
        market.holdings()


# ---------------------------------------------------------------- Lambda


@pytest.fixture
def lambdas() -> Iterator[tuple[FakeLambda, Market]]:
    """Lambda's fake and our adapter."""
    with fake_landlord("lambda") as fake:
        yield cast("FakeLambda", fake), market_on(fake)


def test_lambda_a_key_is_registered_once(lambdas: tuple[FakeLambda, Market]) -> None:
    fake, market = lambdas
    _rent(market, Need(("A100",)))
    _rent(market, Need(("A100",)))
    assert len(fake.keys) == 1


def test_lambda_a_preempted_box_is_failed_and_still_held(lambdas: tuple[FakeLambda, Market]) -> None:
    fake, market = lambdas
    id = _rent(market, Need(("A100",)))
    fake.clock.pass_s(600)
    fake.preempt(fake.world.boxes[id])
    held = market.holding(id)
    assert held is not None
    assert (held.state, held.why) == (State.FAILED, Why.PREEMPTED)
    assert held.rate is not None
    assert held.rate.amount > 0


def test_lambda_a_filesystem_is_mounted_and_kept(lambdas: tuple[FakeLambda, Market]) -> None:
    fake, market = lambdas
    volume = fake.add_volume("sets", 500)
    id = _rent(market, Need(("A100",)), volumes=(f"volume/{volume.id}",))
    assert fake.world.boxes[id].more["file_system_mounts"][0]["mount_point"] == "/lambda/nfs/sets"
    with pytest.raises(LandlordSaidNo, match="filesystem-in-use"):
        market.act(f"volume/{volume.id}", Act.DELETE_STORAGE)
    market.act(id, Act.RELEASE)
    assert _stores(market)[0].rate == HourlyPrice(Decimal("0.20") * 500 / 730, "USD")
    market.act(f"volume/{volume.id}", Act.DELETE_STORAGE)
    assert market.holdings() == ()


# ---------------------------------------------------------------- Paperspace


@pytest.fixture
def paper() -> Iterator[tuple[FakePaperspace, Market]]:
    """Paperspace's fake and our adapter."""
    with fake_landlord("paperspace") as fake:
        yield cast("FakePaperspace", fake), market_on(fake)


def test_paperspace_everything_that_bills_is_held(paper: tuple[FakePaperspace, Market]) -> None:
    fake, market = paper
    fake.add_store("volume", "shared", 250)
    fake.add_store("snapshot", "auto-1", 50, of="ps000001")
    fake.add_store("address", "")
    found = {one.kind: one for one in _stores(market)}
    assert set(found) == {Kind.VOLUME, Kind.SNAPSHOT, Kind.ADDRESS}
    assert found[Kind.ADDRESS].rate == HourlyPrice(Decimal("0.0045"), "USD")
    assert found[Kind.SNAPSHOT].rate is None
    for one in found.values():
        for _ in range(2):
            assert market.act(one.id, Act.DELETE_STORAGE)
    assert market.holdings() == ()


def test_paperspace_a_timer_is_set_at_creation(paper: tuple[FakePaperspace, Market]) -> None:
    fake, market = paper
    id = _rent(market, Need(("A4000",)), ends_unix=fake.clock() + 30 * 3600)
    assert fake.world.boxes[id].more["autoShutdownTimeout"] == 30


def test_paperspace_a_storage_rate_by_the_month_is_read_as_one(paper: tuple[FakePaperspace, Market]) -> None:
    fake, market = paper
    id = _rent(market, Need(("A4000",)))
    shown = fake._shown
    fake._shown = lambda box: {**shown(box), "storageRate": 5.0, "state": "off"}  # type: ignore[method-assign]
    held = market.holding(id)
    assert held is not None
    assert held.rate is not None
    assert float(held.rate.amount) == pytest.approx(5 / 730)


def test_paperspace_a_session_of_nobody_is_a_bad_key(paper: tuple[FakePaperspace, Market]) -> None:
    fake, market = paper
    fake.bad_key = lambda call: Said(200, raw=b"null")  # type: ignore[method-assign]
    with pytest.raises(BadKey):
        market.account()


# ---------------------------------------------------------------- AutoDL Pro


@pytest.fixture
def autodl() -> Iterator[tuple[FakeAutoDl, Market]]:
    """AutoDL Pro's fake and our adapter."""
    with fake_landlord("autodl-pro") as fake:
        yield cast("FakeAutoDl", fake), market_on(fake)


def test_autodl_the_token_goes_without_a_word_before_it(autodl: tuple[FakeAutoDl, Market]) -> None:
    fake, market = autodl
    market.account()
    assert fake.calls[-1].headers["authorization"] == fake.key


def test_autodl_the_wallet_is_in_thousandths(autodl: tuple[FakeAutoDl, Market]) -> None:
    _, market = autodl
    balance = market.account().balance
    assert balance is not None
    assert balance.amounts == (("CNY", Decimal(200)),)


def test_autodl_a_running_box_is_turned_off_before_release(autodl: tuple[FakeAutoDl, Market]) -> None:
    fake, market = autodl
    id = _rent(market, Need(("4090",)))
    fake.clock.pass_s(600)
    assert market.act(id, Act.RELEASE) is False
    assert market.act(id, Act.RELEASE) is False  # still going off: not asked a second time
    fake.clock.pass_s(60)
    assert market.act(id, Act.RELEASE) is True
    assert market.holding(id) is None
    assert [call.path.rpartition("/")[2] for call in fake.calls].count("power_off") == 1


def test_autodl_an_answer_without_an_envelope_is_no_answer(autodl: tuple[FakeAutoDl, Market]) -> None:
    fake, market = autodl
    id = _rent(market, Need(("4090",)))
    fake.bad_key = lambda call: Said(200, {"ok": True})  # type: ignore[method-assign]
    for ask in (market.account, market.holdings, lambda: market.holding(id)):
        with pytest.raises(LandlordDown):
            ask()


def test_autodl_an_unknown_code_never_proves_gone(autodl: tuple[FakeAutoDl, Market]) -> None:
    fake, market = autodl
    id = _rent(market, Need(("4090",)))
    body = {"code": "InternalError", "msg": "服务器错误", "data": None, "request_id": "r"}
    fake.bad_key = lambda call: Said(200, body)  # type: ignore[method-assign]
    with pytest.raises(LandlordSaidNo):
        market.holding(id)


# ---------------------------------------------------------------- names of cards


@pytest.mark.parametrize(
    ("wanted", "name", "fits"),
    [
        ("RTX 4090", "NVIDIA GeForce RTX 4090", True),
        ("4090", "RTX_4090", True),
        ("rtx4090", "RTX 4090", True),
        ("RTX 4090", "RTX 4090D", False),
        ("L4", "L40S", False),
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("A100", "A1000", False),
        ("H100", "H100 (80 GB PCIe)", True),
        ("A100-80G", "A100-80G", True),
        ("nvidia", "RTX 4090", False),
    ],
)
def test_cards_are_compared_by_their_words(wanted: str, name: str, fits: bool) -> None:
    assert fits_card([wanted], name) is fits
