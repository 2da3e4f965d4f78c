"""From offers to the bill: a box is rented by API, trains, comes home and is given back, all through the front door."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.front import ONE_SYSTEM

from .conftest import Renter

pytestmark = pytest.mark.real_ssh


def test_offers_to_bill_through_the_front_door(renter: Renter) -> None:
    found = json.loads(renter.lease("offers", "--json").out)
    assert found["offers"][0]["landlord"] == "runpod"
    ran = renter.types("rent up to 0.34USD/h", "run", "--on", "runpod")
    assert ran.code == 0, ran.said
    assert "runpod-1-1" in renter.lease("landlord", "sweep").out
    ended = renter.types("terminate runpod-1-1", "down", "runpod-1", *ONE_SYSTEM)
    assert ended.code == 0, ended.said
    assert not renter.runpod.world.live()
    assert "nothing bills there" in renter.lease("landlord", "sweep").said
    (bill,) = renter.me.events("bill_read")
    assert float(bill["metered"]["USD"]) >= float(bill["billed"]["USD"]) - 0.0001


def test_without_a_yes_nothing_is_rented(renter: Renter) -> None:
    ran = renter.types("no", "run", "--on", "runpod")
    assert ran.code == 3 and "nothing was rented" in ran.said
    assert not renter.runpod.world.boxes


def test_no_landlord_is_asked_without_a_terminal(renter: Renter) -> None:
    ran = renter.lease("run", "--on", "runpod")
    assert ran.code == 3 and "approval.no_terminal" in ran.said
    assert not renter.runpod.world.boxes


def test_a_lost_answer_is_adopted_under_a_standing_approval(renter: Renter) -> None:
    allowed = renter.types(
        "allow 1 rents up to 0.40USD/h", "landlord", "allow", "--max-price", "0.40USD/h", "--count", "1", "--for", "1h"
    )
    assert allowed.code == 0, allowed.said
    renter.runpod.faults.lose_creates = [True]
    ran = renter.lease("run", "--on", "runpod", "--detach")
    assert ran.code == 0, ran.said
    assert len(renter.runpod.world.boxes) == 1


@pytest.mark.parametrize("moment", ["rent_intended:after", "rent_made:before", "rent_made:after", "rent_ready:before"])
def test_a_kill_while_renting_loses_no_box(renter: Renter, tmp_path: Path, moment: str) -> None:
    allowed = renter.types(
        "allow 2 rents up to 0.40USD/h", "landlord", "allow", "--max-price", "0.40USD/h", "--count", "2", "--for", "1h"
    )
    assert allowed.code == 0, allowed.said
    place = tmp_path / "pause"
    place.mkdir()
    begun = subprocess.Popen(
        [sys.executable, "-m", "leasehold", "run", "--on", "runpod", "--detach"], cwd=renter.me.project,
        env={**renter.me.environment, "LEASEHOLD_PAUSE": f"{place}:home.{moment}"},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not (place / "reached").exists() and begun.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(begun.pid, signal.SIGKILL)
    begun.wait()
    assert (place / "reached").exists()
    if moment == "rent_intended:after":  # no box was made; the settling time of a list is not waited for here
        assert not renter.runpod.world.boxes
        return
    ran = renter.lease("run", "--on", "runpod", "--detach")
    assert ran.code == 0, ran.said
    assert len(renter.runpod.world.boxes) == 1
    assert "NOBODY" not in renter.lease("landlord", "sweep").out


def test_a_parked_box_comes_back_at_another_address(renter: Renter) -> None:
    ran = renter.types("rent up to 0.34USD/h", "run", "--on", "runpod")
    assert ran.code == 0, ran.said
    before = json.loads(renter.lease("box", "show", "runpod-1", "--json").out)["address"]
    parked = renter.types("stop runpod-1-1", "park", "runpod-1", *ONE_SYSTEM)
    assert parked.code == 0, parked.said
    assert "parked" in renter.lease("status").out
    resumed = renter.types("resume runpod-1", "box", "resume", "runpod-1")
    assert resumed.code == 0, resumed.said
    after = json.loads(renter.lease("box", "show", "runpod-1", "--json").out)["address"]
    assert before != after
    looked = renter.lease("ssh", "runpod-1", "--", "true")
    assert looked.code == 0, looked.said


@pytest.mark.parametrize("keeps", [True, False])
def test_a_probe_finds_what_the_disks_survive(renter: Renter, keeps: bool) -> None:
    renter.houses.keeps_volume = keeps  # False: the landlord does not do what its profile says
    found = renter.types("rent up to 0.34USD/h", "landlord", "probe", "runpod", "--yes")
    assert found.code == 0, found.said
    assert ("volume disk: survives a stop" in found.said) is keeps
    assert ("volume disk: does NOT survive a stop; THE PROFILE SAYS OTHERWISE" in found.said) is not keeps
    ended = renter.types("terminate runpod-1-1", "down", "runpod-1", *ONE_SYSTEM)
    assert ended.code == 0, ended.said
    assert not renter.runpod.world.live()
