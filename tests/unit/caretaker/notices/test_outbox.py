"""What is still to be told: merged, rarely sent, told later, never lost. Time is passed in. Runs under PyPy too."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import pytest

from leasehold.caretaker.notices.outbox import GAP_S, PER_HOUR, RUSHED_PER_HOUR, SETTLE_S, Outbox

BOTH = ["phone", "mail"]


def item(number: int, key: str = "", rush: bool = False, at: float = 1000.0) -> Dict[str, Any]:
    text = "event %d" % number
    base: Dict[str, Any] = {"key": key or "kind:%d" % number, "k": "stalled", "topic": "stalled", "n": number}
    return {
        **base,
        "last": number,
        "count": 1,
        "at": at,
        "priority": "default",
        "text": text,
        "rush": rush,
        "to": list(BOTH),
    }


@pytest.fixture
def box(tmp_path: Path) -> Outbox:
    return Outbox(str(tmp_path / "notices.json"))


def fly(box: Outbox, now: float, **problems: str) -> List[str]:
    """Send what is due; return who was told."""
    tells = box.due(now, BOTH)
    if not tells:
        return []
    keys = {name: [[one["key"], one["last"]] for one in items] for name, items in tells.items()}
    box.depart({"tells": keys, "began_unix": now}, now)
    for name in tells:
        box.land(name, problems.get(name, ""), 0.0, now)
    box.landed()
    return list(tells)


def test_events_that_come_together_wait_a_moment_for_each_other(box: Outbox) -> None:
    box.add(item(1))
    assert box.due(1000.0, BOTH) == {}
    box.add(item(2))
    assert [one["n"] for one in box.due(1000.0 + SETTLE_S, BOTH)["phone"]] == [1, 2]


def test_the_end_does_not_wait(box: Outbox) -> None:
    box.add(item(1, rush=True))
    assert set(box.due(1000.0, BOTH)) == set(BOTH)


def test_what_repeats_itself_is_counted_and_said_in_its_last_words(box: Outbox) -> None:
    for number in range(1, 40):
        box.add(item(number, "alarm:disk"))
    (one,) = box.waiting
    assert (one["count"], one["text"], one["n"], one["last"]) == (39, "event 39", 1, 39)


def test_a_flapping_alarm_sends_few_an_hour(box: Outbox) -> None:
    sent = 0
    for second in range(3600):
        box.add(item(second, "alarm:disk", at=1000.0 + second))
        sent += len(fly(box, 1000.0 + second)) // 2
    assert sent == PER_HOUR
    assert box.waiting[0]["count"] > 3000


def test_two_notices_keep_a_distance(box: Outbox) -> None:
    box.add(item(1))
    assert fly(box, 1010.0) == BOTH
    box.add(item(2))
    assert fly(box, 1010.0 + GAP_S - 1) == []
    assert box.value["limited"] is True
    assert fly(box, 1010.0 + GAP_S) == BOTH
    assert box.value["limited"] is False


def test_even_ends_are_bounded(box: Outbox) -> None:
    sent = 0
    for number in range(60):
        box.add(item(number, rush=True, at=1000.0 + number))
        sent += len(fly(box, 1000.0 + number)) // 2
    assert sent == RUSHED_PER_HOUR


def test_one_failing_channel_does_not_keep_the_other_from_being_told_once(box: Outbox) -> None:
    box.add(item(1, rush=True))
    assert fly(box, 1000.0, mail="refused") == BOTH
    assert [one["to"] for one in box.waiting] == [["mail"]]
    assert fly(box, 1059.0) == [], "a minute of patience first"
    assert fly(box, 1061.0) == ["mail"]
    assert box.waiting == []


def test_patience_grows_and_the_wish_of_the_other_side_counts(box: Outbox) -> None:
    box.add(item(1, rush=True))
    tries = []
    now = 1000.0
    while len(tries) < 6:
        if fly(box, now, phone="no", mail="no"):
            tries.append(now)
        now += 30
    gaps = [after - before for before, after in zip(tries, tries[1:])]
    assert gaps == [60, 120, 300, 900, 1800]
    box.depart({"tells": {"phone": []}, "began_unix": now}, now)
    box.land("phone", "slow down", 7200.0, now)
    assert box.value["channels"]["phone"]["next_unix"] == now + 7200.0


def test_a_streak_of_failures_is_told_at_its_beginning_and_at_its_end(box: Outbox) -> None:
    box.add(item(1))
    box.depart({"tells": {"mail": [["kind:1", 1]]}, "began_unix": 0}, 1000.0)
    assert box.land("mail", "refused", 0.0, 1000.0) == {"failed": "refused"}
    assert box.land("mail", "refused", 0.0, 1100.0) == {}
    assert box.failing_since("mail") == 1000.0
    assert box.land("mail", "", 0.0, 1300.0) == {"back_after_s": 300}
    assert box.land("mail", "", 0.0, 1400.0) == {}


def test_an_event_that_repeats_while_its_notice_flies_is_told_again(box: Outbox) -> None:
    box.add(item(1, "alarm:disk"))
    box.depart({"tells": {name: [["alarm:disk", 1]] for name in BOTH}, "began_unix": 0}, 1000.0)
    box.add(item(2, "alarm:disk"))
    for name in BOTH:
        box.land(name, "", 0.0, 1001.0)
    box.landed()
    assert [one["n"] for one in box.waiting] == [2]


def test_the_queue_is_bounded_and_what_fell_out_is_counted(box: Outbox) -> None:
    box.add(item(0, rush=True))
    for number in range(1, 200):
        box.add(item(number))
    assert len(box.waiting) == 60 and box.waiting[0]["n"] == 0, "an end never falls out"
    assert box.value["dropped"] == 140


def test_a_channel_that_was_taken_away_is_not_waited_for(box: Outbox) -> None:
    box.add(item(1, rush=True))
    assert set(box.due(1000.0, ["phone"])) == {"phone"}
    assert box.due(1000.0, ["other"]) == {} and box.waiting == []


def test_a_clock_that_was_set_back_does_not_silence_it(box: Outbox) -> None:
    box.add(item(1))
    assert fly(box, 9000.0) == BOTH
    box.add(item(2, at=9001.0))
    assert fly(box, 5000.0) == BOTH


def test_another_process_goes_on_where_this_one_stood(box: Outbox, tmp_path: Path) -> None:
    box.add(item(1))
    box.save()
    other = Outbox(str(tmp_path / "notices.json"))
    assert other.waiting == box.waiting
    other.add(item(2))
    other.save()
    box.load()
    assert len(box.waiting) == 2


def test_what_could_not_be_saved_is_kept_in_memory(tmp_path: Path) -> None:
    box = Outbox(str(tmp_path / "gone" / "notices.json"))
    box.add(item(1))
    with pytest.raises(OSError):
        box.save()
    box.load()
    assert len(box.waiting) == 1
