"""From offers to the bill: a box is rented by API, trains, comes home and is given back, all through the front door."""

from __future__ import annotations

import json

import pytest

from tests.support.front import ONE_SYSTEM

from .conftest import Renter

pytestmark = pytest.mark.real_ssh


def test_offers_to_bill_through_the_front_door(renter: Renter) -> None:
    found = json.loads(renter.lease("offers", "--json").out)
    assert found["offers"][0]["landlord"] == "runpod"
    ran = renter.types("rent up to 0.34USD/h", "run", "--on", "runpod")
    assert ran.code == 0, ran.said
    shown = renter.lease("landlord", "sweep")
    assert "runpod-1-1" in shown.out, shown.said
    plan = renter.lease("down", "runpod-1", "--plan")
    print(plan.said, plan.out, renter.lease("status").out, renter.lease("box", "show", "runpod-1").out)
    ended = renter.types("terminate runpod-1-1", "down", "runpod-1", *ONE_SYSTEM)
    print(ended.said)
    assert ended.code == 0, ended.said
    assert not renter.runpod.world.live()
    print(renter.lease("landlord", "sweep"))
    print(renter.me.events("bill_read"))
