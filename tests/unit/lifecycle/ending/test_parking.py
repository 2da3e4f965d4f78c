"""Parking: who may do it, for how long a yes stands, and what a silent box means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from leasehold.errors import LinkError, Refusal, UserError
from leasehold.facts import profiles
from leasehold.ledger import books
from leasehold.lifecycle.approval.approve import new_request, typed
from leasehold.lifecycle.box.lease_notes import note_reached
from leasehold.lifecycle.ending import parking
from leasehold.lifecycle.ending.stopped_by_hand import record_stopped
from leasehold.lifecycle.ending.teardown import TeardownPlan, Wanted, tear_down
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.money.metering import meter_of
from leasehold.model.lease.lease import Lease
from leasehold.model.run.receipt import Approval
from leasehold.platforms.contract import BoxState
from leasehold.platforms.landlords.inside import InsideLandlord
from leasehold.platforms.landlords.person import PersonLandlord
from leasehold.shells.cli.screens.meter_lines import lease_lines

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


def test_a_standing_yes_covers_this_box_and_verb_until_its_day_or_revoked(
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
        (True, 0, 60.0, BoxState.UNKNOWN),
        (True, 2, 60.0, BoxState.UNKNOWN),
        (True, 10**6, 0.05, BoxState.HELD),
        (False, 0, 60.0, BoxState.UNKNOWN),
    ],
)
def test_silence_never_means_parked(hears: bool, goes_after: int, waits_s: float, state: BoxState) -> None:
    box = Box(hears, goes_after)
    landlord = InsideLandlord(box.power_off, box.answers, going_s=waits_s, look_every_s=0.001)
    held = Lease("gpu1-1", "gpu1", "autodl", "/root", 0.0)
    verb = profiles.load("autodl").verb("power-off")
    assert verb is not None
    assert landlord.act(held, verb) is state


# ---------------------------------------------------------------- a stop that nobody confirmed


def parked_into_silence(home: Home, tmp_path: Path, price: str = "2CNY/h") -> tuple[Lease, list[str]]:
    """Park a box that acknowledges and then does not answer; this machine stands in for it until then."""
    held = books.open_lease(home.ledger, "local", "autodl", str(tmp_path / "box"), price)
    said: list[str] = []
    landlord = InsideLandlord(lambda command: None, lambda: False, look_every_s=0.001)

    def approve(plan: TeardownPlan) -> Approval:
        return typed(new_request(plan.readings), "power-off", lambda question: "power-off")

    state = tear_down(home, held, Wanted("power-off"), landlord, approve, lambda note: said.append(note.text))
    assert state is BoxState.UNKNOWN
    return books.find_lease(home.ledger, held.id), said


def test_a_silent_box_counts_as_billing_and_its_release_date_is_told(home: Home, tmp_path: Path) -> None:
    held, said = parked_into_silence(home, tmp_path)
    assert (held.open, held.parked, held.off_unknown) == (True, False, True)
    text = "\n".join(said)
    assert "is parked" not in text
    assert "no longer answers. Whether it is off is unknown: only the console shows that" in text
    assert "if it is off: on 20" in text, "the release"
    assert f"counts as billing at 2CNY/h. Once the console shows it off: lease down {held.id} --stopped" in text
    later = held.since_unix + 10 * 3600
    meter = meter_of(home, held, later).meter
    assert str(meter.burn) == "2.00 CNY"
    assert meter.next_clock is not None
    assert meter.next_clock.due_unix == held.since_unix + 15 * DAY
    assert meter.next_clock.name.endswith("(if it is off)")
    (line,) = lease_lines(meter_of(home, held, later), later)
    assert "asked to stop 10 h ago, not confirmed" in line
    assert "up to 20.0" in line and "2.00 CNY/h if it is still on" in line
    assert any(event.kind == "lease_parked" for event in home.ledger.events(lease=held.id)) is False


def test_a_persons_word_ends_the_doubt_from_when_the_console_shows_it_off(home: Home, tmp_path: Path) -> None:
    held, _ = parked_into_silence(home, tmp_path)
    record_stopped(home, held, "me", since_unix=held.since_unix)
    told = books.find_lease(home.ledger, held.id)
    assert told.parked
    assert told.since_unix == held.since_unix
    assert [segment.state for segment in told.segments(held.since_unix + DAY)] == ["running", "parked"]
    assert books.pending_intent(home.ledger, held.id) is None


def test_without_a_date_the_doubt_is_counted_as_running(home: Home, tmp_path: Path) -> None:
    held, _ = parked_into_silence(home, tmp_path)
    record_stopped(home, held, "me")
    told = books.find_lease(home.ledger, held.id)
    assert told.parked
    assert told.since_unix > held.since_unix
    states = [segment.state for segment in told.segments(told.since_unix + DAY)]
    assert states == ["running", "unknown", "parked"]


def test_a_box_that_answers_again_was_never_off_or_is_on_again(home: Home, tmp_path: Path) -> None:
    held, _ = parked_into_silence(home, tmp_path)
    note_reached(home.ledger, held)
    assert books.find_lease(home.ledger, held.id).state == "running"
    assert books.pending_intent(home.ledger, held.id) is None


def test_a_box_that_still_answers_is_not_in_doubt(home: Home, tmp_path: Path) -> None:
    held = lease(home, "autodl")
    home.ledger.append("verb_unknown", lease=held.id, verb="power-off", state="held")
    assert books.find_lease(home.ledger, held.id).state == "running"
