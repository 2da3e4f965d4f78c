"""Rented boxes are real: the ordered key opens them where the API says, and a stop keeps what the facts say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from leasehold.platforms.landlords.market import Act, Market, Need, RentOrder, State
from tests.fakes.landlords.clock import VirtualClock
from tests.fakes.landlords.sshd_houses import SshdHouses, sshd_houses
from tests.fakes.landlords.street import fake_landlord, market_on
from tests.support.sshd import make_key

pytestmark = pytest.mark.real_ssh
KEEPS_HOME = {"runpod": False, "vastai": True, "autodl-pro": True}


@pytest.mark.parametrize("name", sorted(KEEPS_HOME))
def test_a_rented_box_opens_to_its_key_and_keeps_what_facts_say(name: str, tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    key = (tmp_path / "key.pub").read_text("utf-8").strip()
    clock = VirtualClock()
    houses_at = sshd_houses(tmp_path / "boxes", platform=name)
    with houses_at as houses, fake_landlord(name, clock, houses) as fake:
        market = market_on(fake)
        order = RentOrder("lease-real", market.offers(Need(("4090",)))[0], disk_gb=20, public_key=key)
        id = market.rent(order)
        clock.pass_s(600)
        _run(market, houses, id, tmp_path, "echo kept > ~/note")
        for verb in (Act.PARK, Act.RESUME):
            market.act(id, verb)
            clock.pass_s(600)
        found = _run(market, houses, id, tmp_path, "cat ~/note 2>/dev/null || echo nothing")
        assert found == ("kept" if KEEPS_HOME[name] else "nothing")
        home = houses.boxes[id].home
        for _ in range(3):
            market.act(id, Act.RELEASE)
            clock.pass_s(600)
        assert market.holding(id) is None
        assert not home.exists()


def _run(market: Market, houses: SshdHouses, id: str, folder: Path, command: str) -> str:
    """Run a command on the box at the address that the API tells now."""
    held = market.holding(id)
    assert held is not None
    assert held.state is State.RUNNING
    assert held.address is not None
    words = ["ssh", "-F", "/dev/null", "-i", str(folder / "key"), "-p", str(held.address.port)]
    words += ["-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", "-o", "BatchMode=yes"]
    words += ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    words += ["-l", houses.boxes[id].user, held.address.host, command]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
