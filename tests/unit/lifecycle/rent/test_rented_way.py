"""The way to a rented box: asked anew, guarded by the pin, and honest about a box that does not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.errors import BoxError, LandlordDown, LinkError
from leasehold.ledger import books, box_book
from leasehold.lifecycle.machine.rented_way import Whereabouts, rented_way
from leasehold.platforms.landlords.market import Act
from leasehold.transport.early_calls import EarlyCalls
from leasehold.transport.openssh import SshAddress

from .bed import Bed


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def _whereabouts(bed: Bed) -> Whereabouts:
    entry = box_book.find(bed.home.ledger, "runpod-1")
    assert entry is not None
    return Whereabouts(bed.home, entry, bed.desk)


def _running(bed: Bed) -> Whereabouts:
    market = bed.market()
    market.box_at = lambda id: SshAddress("10.0.0.7", "root", 31022)
    bed.rent()
    bed.clock.pass_s(120)
    return _whereabouts(bed)


def test_the_landlord_is_asked_for_the_address(bed: Bed) -> None:
    found = _running(bed)()
    assert (found.host, found.port) == ("10.0.0.7", 31022)
    assert found.identity.endswith("id_ed25519")
    entry = box_book.find(bed.home.ledger, "runpod-1")
    assert entry is not None and entry.address == "ssh:root@10.0.0.7:31022"


def test_a_landlord_that_is_down_leaves_the_last_known_address(bed: Bed) -> None:
    _running(bed)()
    market = bed.markets["runpod"]

    def down(id: str) -> None:
        raise LandlordDown("landlord.down", "runpod answered 503")

    market.holding = down  # type: ignore[method-assign,assignment]
    assert _whereabouts(bed)().host == "10.0.0.7"
    assert "last known address" in bed.told("warning")[-1]


def test_a_parked_box_is_parked_in_the_ledger_and_cannot_be_reached(bed: Bed) -> None:
    where = _running(bed)
    bed.markets["runpod"].act("mem-1", Act.PARK)
    with pytest.raises(LinkError) as error:
        where()
    assert error.value.code == "link.box_not_running"
    lease = books.leases(bed.home.ledger)[0]
    assert (lease.parked, lease.rate) == (True, "0.02USD/h")


def test_a_box_that_is_gone_is_no_broken_link(bed: Bed) -> None:
    where = _running(bed)
    bed.markets["runpod"].act("mem-1", Act.RELEASE)
    with pytest.raises(BoxError):
        where()
    assert not books.leases(bed.home.ledger)[0].open


def test_the_host_key_is_pinned_under_the_landlords_id(bed: Bed) -> None:
    _running(bed)
    entry = box_book.find(bed.home.ledger, "runpod-1")
    assert entry is not None
    words = rented_way(bed.home, entry).argv("true")
    assert "-oHostKeyAlias=runpod-mem-1" in words


def test_no_command_line_of_a_box_that_moves_is_remembered(bed: Bed) -> None:
    _running(bed)
    entry = box_book.find(bed.home.ledger, "runpod-1")
    assert entry is not None
    way = rented_way(bed.home, entry)
    with EarlyCalls(bed.home.path).opening("runpod-1", way) as opened:
        assert opened is way
