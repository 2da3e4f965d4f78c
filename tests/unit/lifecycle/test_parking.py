"""Parking: who may do it, for how long a yes stands, and what a silent box means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from leasehold.errors import LinkError, Refusal, UserError
from leasehold.facts import profiles
from leasehold.ledger import books
from leasehold.lifecycle import parking
from leasehold.lifecycle.home import Home
from leasehold.lifecycle.teardown import record_stopped
from leasehold.model.lease import Lease
from leasehold.platforms.contract import BoxState
from leasehold.platforms.landlords.inside import InsideLandlord
from leasehold.platforms.landlords.person import PersonLandlord

DAY = 86400.0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path / "home", tmp_path / "config")
    yield made
    made.ledger.close()


def lease(home: Home, platform: str) -> Lease:
    return books.open_lease(home.ledger, "gpu1", platform, "/root", "1CNY/h")


def yes(question: str) -> str:
    return question.rsplit("exactly:  ", 1)[1].split("\n")[0]


def test_a_standing_yes_covers_this_box_and_verb_until_its_day_or_until_it_is_taken_back(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = lease(home, "autodl")
    assert parking.standing(home, held) is None
    given = parking.grant(home, held, 14 * DAY, yes)
    assert (given.box, given.verb) == ("gpu1", "power-off")
    assert parking.standing(home, held) == given
    other = books.open_lease(home.ledger, "gpu2", "autodl", "/root", "")
    assert parking.standing(home, other) is None
    assert parking.revoke(home, held)
    assert parking.standing(home, held) is None
    parking.grant(home, held, 14 * DAY, yes)
    now = parking.time.time()
    monkeypatch.setattr(parking.time, "time", lambda: now + 15 * DAY)
    assert parking.standing(home, held) is None


@pytest.mark.parametrize("answer", ["", "yes", "standing power-off gpu2", "power-off gpu1"])
def test_another_phrase_records_nothing(home: Home, answer: str) -> None:
    held = lease(home, "autodl")
    with pytest.raises(Refusal):
        parking.grant(home, held, DAY, lambda question: answer)
    assert parking.standing(home, held) is None


@pytest.mark.parametrize("for_s", [0.0, -DAY, 32 * DAY])
def test_a_standing_yes_lasts_a_month_at_most(home: Home, for_s: float) -> None:
    with pytest.raises(UserError):
        parking.grant(home, lease(home, "autodl"), for_s, yes)


@pytest.mark.parametrize("platform", profiles.names())
def test_only_a_park_that_deletes_nothing_can_stand(home: Home, platform: str) -> None:
    held, verb = lease(home, platform), profiles.load(platform).parking
    if verb is None:
        with pytest.raises(UserError) as caught:
            parking.grant(home, held, DAY, yes)
        assert caught.value.code == "lease.no_park"
    elif verb.deletes:
        with pytest.raises(Refusal) as refused:
            parking.grant(home, held, DAY, yes)
        assert refused.value.code == "standing.unsafe"
    else:
        assert parking.grant(home, held, DAY, yes).verb == verb.name


def test_who_acts_is_the_box_where_it_can_and_else_a_person(home: Home) -> None:
    far = books.open_lease(home.ledger, "ssh:gpu1", "autodl", "/root", "")
    who = {verb.name: type(parking.landlord_of(home, far, verb)) for verb in profiles.load("autodl").verbs}
    assert who == {"power-off": InsideLandlord, "no-gpu-mode": PersonLandlord, "release": PersonLandlord}


def test_this_machine_is_never_powered_off_whatever_its_book_entry_says(home: Home) -> None:
    near = books.open_lease(home.ledger, "local", "autodl", "/root", "")
    verb = profiles.load("autodl").parking
    assert verb is not None
    with pytest.raises(Refusal) as caught:
        parking.landlord_of(home, near, verb)
    assert caught.value.code == "park.own_machine"


def test_a_persons_word_parks_after_a_park_and_closes_after_anything_else(home: Home) -> None:
    held = lease(home, "paperspace")
    home.ledger.append("verb_asked", lease=held.id, verb="shut-down")
    assert record_stopped(home, held, "me") is not None
    assert books.find_lease(home.ledger, held.id).parked
    record_stopped(home, held, "me", "deactivate")
    assert not books.find_lease(home.ledger, held.id).open


class Box:
    """A box that may hear, answer, and go."""

    def __init__(self, hears: bool, goes_after: int) -> None:
        self.hears, self.left = hears, goes_after

    def power_off(self, command: Sequence[str]) -> None:
        if not self.hears:
            raise LinkError("link.lost", "gone in the middle")

    def answers(self) -> bool:
        self.left -= 1
        return self.left >= 0


@pytest.mark.parametrize(
    "hears, goes_after, waits_s, state",
    [
        (True, 0, 60.0, BoxState.PARKED),
        (True, 2, 60.0, BoxState.PARKED),
        (True, 10**6, 0.05, BoxState.HELD),
        (False, 0, 60.0, BoxState.UNKNOWN),
    ],
)
def test_only_a_box_that_answered_and_then_fell_silent_is_parked(
    hears: bool, goes_after: int, waits_s: float, state: BoxState
) -> None:
    box = Box(hears, goes_after)
    landlord = InsideLandlord(box.power_off, box.answers, going_s=waits_s, look_every_s=0.001)
    held = Lease("gpu1-1", "gpu1", "autodl", "/root", 0.0)
    verb = profiles.load("autodl").verb("power-off")
    assert verb is not None
    assert landlord.act(held, verb) is state
