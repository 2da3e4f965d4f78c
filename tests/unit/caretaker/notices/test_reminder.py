"""A finished box nags on schedule, until hushed, resumed or gone. Time is passed in. Runs under PyPy too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import pytest

from leasehold.caretaker.notices import reminder as nagging
from leasehold.caretaker.notices.reminder import due_after_s, nag
from leasehold.caretaker.process.locks import try_lock
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.events.ending import final_words
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.files.journal import Journal
from leasehold.kit.run.run_state import fold

CHANNELS = [{"kind": "ntfy", "url": "https://example.invalid/topic"}]
MIN, HOUR = 60, 3600


class Clock:
    """Stands in for the time module: sleeping takes no time."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.on_sleep: Callable[[], None] = lambda: None

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.on_sleep()


class Ears:
    """Stands in for the watcher: takes what is to be said, and sends at once."""

    def __init__(self, bed: "Bed") -> None:
        self._bed = bed
        self.outbox = self
        self.flight: Optional[Dict[str, Any]] = None
        self.quiet = True

    def step(self) -> None:
        pass

    def say(self, item: Dict[str, Any]) -> None:
        self._bed.heard(item)


class Bed:
    """A run folder whose run has ended, a clock that stands at its end, and what was said."""

    def __init__(self, folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.sent: List[Tuple[float, Dict[str, Any]]] = []
        journal = Journal(folder.journal)
        self.end = float(journal.append("run_opened", cells=["main"], plan_sha256="x", pid=1)["t"])
        self.end = float(journal.append("run_failed", reason="main: attempt 1 exited with code 1")["t"])
        journal.close()
        self.clock = Clock(self.end)
        self.stop_after = 1
        monkeypatch.setattr(nagging, "try_lock", self._try_lock)
        self.locks: List[int] = []
        self.ears: Any = Ears(self)
        write_json(folder.notify, {"channels": CHANNELS, "price": "1.98USD/h", "box": "ssh:gpu1"})

    def heard(self, item: Dict[str, Any]) -> None:
        self.sent.append((round(self.clock.now - self.end), item))
        if len(self.sent) >= self.stop_after:
            Path(self.folder.hush).touch()

    def run(self) -> int:
        return nag(self.folder, self.clock, self.ears)

    def nag(self, times: int = 1) -> List[float]:
        self.stop_after = len(self.sent) + times
        if os.path.exists(self.folder.hush):
            os.unlink(self.folder.hush)
        assert self.run() == 0
        for lock in self.locks:  # in life the process ends here
            os.close(lock)
        self.locks.clear()
        return [at for at, _ in self.sent]

    def _try_lock(self, path: str) -> Optional[int]:
        lock = try_lock(path)
        self.locks += [] if lock is None else [lock]
        return lock


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    folder = RunFolder.below(str(tmp_path), "toy-0123456789")
    os.makedirs(folder.path)
    os.makedirs(os.path.dirname(folder.notify))
    return Bed(folder, monkeypatch)


# ---------------------------------------------------------------- the schedule


def test_notices_are_due_after_15_minutes_an_hour_and_then_every_four() -> None:
    due = [due_after_s(number, {}) for number in range(5)]
    assert due == [15 * MIN, HOUR, 5 * HOUR, 9 * HOUR, 13 * HOUR]


def test_a_schedule_of_ones_own_is_kept() -> None:
    wishes = {"after_s": [1, 2, 3], "every_s": 10}
    assert [due_after_s(number, wishes) for number in range(5)] == [1, 2, 3, 13, 23]


def test_the_box_sends_when_they_are_due(bed: Bed) -> None:
    assert bed.nag(times=4) == [15 * MIN, HOUR, 5 * HOUR, 9 * HOUR]
    assert (read_json(bed.folder.nagged) or {})["sent"] == 4


def test_a_nag_that_was_killed_goes_on_where_it_stood(bed: Bed) -> None:
    assert bed.nag(times=2) == [15 * MIN, HOUR]
    assert bed.nag(times=1) == [15 * MIN, HOUR, 5 * HOUR]


def test_a_box_that_slept_sends_one_notice_and_not_a_burst(bed: Bed) -> None:
    bed.clock.now = bed.end + 10 * HOUR
    assert bed.nag(times=2) == [10 * HOUR, 13 * HOUR]


def test_a_run_that_was_resumed_and_ended_again_begins_anew(bed: Bed) -> None:
    bed.nag(times=3)
    bed.clock.now += 100
    journal = Journal(bed.folder.journal)
    journal.append("resumed", by="me", pid=2)
    event = journal.append("run_failed", reason="again")
    journal.close()
    bed.end = float(event["t"])
    bed.clock.now = bed.end
    assert bed.nag(times=2)[3:] == [15 * MIN, HOUR]


def test_after_a_month_nobody_listens_any_more(bed: Bed) -> None:
    bed.clock.now = bed.end + 31 * 24 * HOUR
    assert bed.run() == 0
    assert bed.sent == []


# ---------------------------------------------------------------- when it leaves


def test_hushed_it_leaves_without_a_word(bed: Bed) -> None:
    Path(bed.folder.hush).touch()
    assert bed.run() == 0
    assert bed.sent == []


def test_hushed_while_it_waits_it_leaves_within_a_slice(bed: Bed) -> None:
    bed.clock.on_sleep = lambda: Path(bed.folder.hush).touch()
    assert bed.run() == 0
    assert bed.sent == []
    assert bed.clock.now - bed.end <= 30


def test_resumed_while_it_waits_it_leaves(bed: Bed) -> None:
    def resume() -> None:
        journal = Journal(bed.folder.journal)
        journal.append("resumed", by="me", pid=2)
        journal.close()

    bed.clock.on_sleep = resume
    assert bed.run() == 0
    assert bed.sent == []


def test_two_do_not_nag_at_once(bed: Bed) -> None:
    lock = try_lock(os.path.join(bed.folder.path, "nag.lock"))
    assert lock is not None
    assert bed.run() == 0
    assert bed.sent == []
    os.close(lock)


@pytest.mark.parametrize("wishes", [{}, {"channels": []}])
def test_without_a_channel_there_is_nothing_to_do(bed: Bed, wishes: Dict[str, Any]) -> None:
    write_json(bed.folder.notify, wishes)
    assert bed.run() == 0


# ---------------------------------------------------------------- what it says


def test_the_notice_says_what_ended_what_it_costs_and_what_to_do(bed: Bed) -> None:
    bed.nag()
    _, what = bed.sent[0]
    assert what["title"] == "toy-0123456789 failed"
    assert what["text"] == (
        "toy-0123456789 failed 15 min ago (main: attempt 1 exited with code 1). The box still bills 1.98USD/h."
        " Next: lease logs toy-0123456789; the same lease run resumes it"
    )
    assert (what["event"], what["state"], what["idle_s"], what["priority"]) == ("run_failed", "failed", 900, "high")


def test_two_notices_of_one_ending_can_be_told_apart(bed: Bed) -> None:
    bed.nag(times=2)
    assert [what["last"] for _, what in bed.sent] == ["2.1", "2.2"]


def test_without_a_price_it_still_warns(bed: Bed) -> None:
    run = fold(Journal(bed.folder.journal).events)
    assert "The box may still bill." in final_words([], run, {})


def test_whoever_does_not_want_it_is_not_nagged_and_the_process_leaves(bed: Bed) -> None:
    write_json(bed.folder.notify, {"channels": CHANNELS, "on": ["ended"]})
    assert bed.run() == 0
    assert bed.sent == [] and bed.clock.now == bed.end


def test_it_stays_until_what_is_untold_is_told(bed: Bed) -> None:
    write_json(bed.folder.notify, {"channels": CHANNELS, "on": ["ended"]})
    bed.ears.quiet = False

    def soon() -> None:
        bed.ears.quiet = bed.clock.now > bed.end + 3600

    bed.clock.on_sleep = soon
    assert bed.run() == 0
    assert bed.clock.now - bed.end > 3600


# ---------------------------------------------------------------- results that are home


def test_what_is_home_is_said_for_a_day_where_the_box_bills(bed: Bed) -> None:
    seq = nagging.fold(nagging.journal.read_from(bed.folder.journal, 0)[0]).seq
    write_json(bed.folder.pulled, {"seq": seq, "at_unix": bed.end + HOUR})
    bed.stop_after = 1000
    assert bed.run() == 0, "it ends by itself"
    assert len(bed.sent) > 0 and bed.sent[-1][0] <= 25 * HOUR


def test_what_is_home_is_not_said_where_nothing_bills(bed: Bed) -> None:
    seq = nagging.fold(nagging.journal.read_from(bed.folder.journal, 0)[0]).seq
    write_json(bed.folder.notify, {"channels": CHANNELS, "box": "local"})
    write_json(bed.folder.pulled, {"seq": seq, "at_unix": bed.end})
    assert bed.run() == 0
    assert bed.sent == []


def test_another_ending_than_the_one_at_home_is_nagged_about(bed: Bed) -> None:
    write_json(bed.folder.notify, {"channels": CHANNELS, "box": "local"})
    write_json(bed.folder.pulled, {"seq": 1, "at_unix": bed.end})
    assert bed.nag(2) == [15 * MIN, HOUR]
