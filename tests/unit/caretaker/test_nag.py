"""A finished box nags on schedule, until hushed, resumed or gone. Time is passed in. Runs under PyPy too."""

from __future__ import annotations

import http.server
import json
import os
import threading
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import pytest

from leasehold.caretaker import nag as nagging
from leasehold.caretaker.layout import RunFolder
from leasehold.caretaker.locks import try_lock
from leasehold.caretaker.nag import due_after_s, message, nag
from leasehold.caretaker.notices import send_all
from leasehold.kit.atomic import read_json, write_json
from leasehold.kit.journal import Journal
from leasehold.kit.runstate import fold

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


class Bed:
    """A run folder whose run has ended, a clock that stands at its end, and what was sent."""

    def __init__(self, folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.sent: List[Tuple[float, Dict[str, Any]]] = []
        journal = Journal(folder.journal)
        self.end = float(journal.append("run_opened", cells=["main"], plan_sha256="x", pid=1)["t"])
        self.end = float(journal.append("run_failed", reason="main: attempt 1 exited with code 1")["t"])
        journal.close()
        self.clock = Clock(self.end)
        self.stop_after = 1
        monkeypatch.setattr(nagging, "time", self.clock)
        monkeypatch.setattr(nagging, "_send", self._send)
        monkeypatch.setattr(nagging, "try_lock", self._try_lock)
        self.locks: List[int] = []
        write_json(folder.notify, {"channels": CHANNELS, "price": "1.98USD/h", "box": "ssh:gpu1"})

    def _send(self, folder: RunFolder, channels: List[Dict[str, str]], what: Dict[str, Any]) -> None:
        assert channels == CHANNELS
        self.sent.append((round(self.clock.now - self.end), what))
        if len(self.sent) >= self.stop_after:
            Path(self.folder.hush).touch()

    def nag(self, times: int = 1) -> List[float]:
        self.stop_after = len(self.sent) + times
        if os.path.exists(self.folder.hush):
            os.unlink(self.folder.hush)
        assert nag(self.folder) == 0
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
    assert nag(bed.folder) == 0
    assert bed.sent == []


# ---------------------------------------------------------------- when it leaves


def test_hushed_it_leaves_without_a_word(bed: Bed) -> None:
    Path(bed.folder.hush).touch()
    assert nag(bed.folder) == 0
    assert bed.sent == []


def test_hushed_while_it_waits_it_leaves_within_a_slice(bed: Bed) -> None:
    bed.clock.on_sleep = lambda: Path(bed.folder.hush).touch()
    assert nag(bed.folder) == 0
    assert bed.sent == []
    assert bed.clock.now - bed.end <= 30


def test_resumed_while_it_waits_it_leaves(bed: Bed) -> None:
    def resume() -> None:
        journal = Journal(bed.folder.journal)
        journal.append("resumed", by="me", pid=2)
        journal.close()

    bed.clock.on_sleep = resume
    assert nag(bed.folder) == 0
    assert bed.sent == []


def test_two_do_not_nag_at_once(bed: Bed) -> None:
    lock = try_lock(os.path.join(bed.folder.path, "nag.lock"))
    assert lock is not None
    assert nag(bed.folder) == 0
    assert bed.sent == []
    os.close(lock)


@pytest.mark.parametrize("wishes", [{}, {"channels": []}])
def test_without_a_channel_there_is_nothing_to_do(bed: Bed, wishes: Dict[str, Any]) -> None:
    write_json(bed.folder.notify, wishes)
    assert nag(bed.folder) == 0


# ---------------------------------------------------------------- what it says


def test_the_notice_says_what_ended_what_it_costs_and_what_to_do(bed: Bed) -> None:
    bed.nag()
    _, what = bed.sent[0]
    assert what == {
        "title": "toy-0123456789 failed",
        "text": "toy-0123456789 failed 15 min ago (main: attempt 1 exited with code 1). The box still bills 1.98USD/h."
        " Next: lease logs toy-0123456789; the same lease run resumes it",
        "event": "run_failed",
        "run": "toy-0123456789",
        "state": "failed",
        "idle_s": 900,
        "box": "ssh:gpu1",
        "priority": "high",
    }


def test_without_a_price_it_still_warns(bed: Bed) -> None:
    run = fold(Journal(bed.folder.journal).events)
    assert "The box may still bill." in message(bed.folder, run, {})["text"]


# ---------------------------------------------------------------- sending

Seen = List[Tuple[str, Dict[str, str], bytes]]


@pytest.fixture
def listener() -> Iterator[Tuple[str, Seen]]:
    """Give the address of a loopback server and what it was sent; /refuse answers 403."""
    seen: Seen = []

    class Door(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, dict(self.headers.items()), body))
            self.send_response(403 if self.path == "/refuse" else 200)
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield "http://127.0.0.1:%d" % server.server_port, seen
    server.shutdown()
    server.server_close()


MESSAGE = {"title": "toy failed", "text": "训练 failed", "event": "run_failed", "priority": "high"}


def test_ntfy_gets_headers_and_text(listener: Tuple[str, Seen]) -> None:
    address, seen = listener
    assert send_all([{"kind": "ntfy", "url": address + "/topic"}], MESSAGE) == []
    path, headers, body = seen[0]
    assert path == "/topic"
    assert (headers["Title"], headers["Priority"], headers["Tags"]) == ("toy failed", "high", "computer")
    assert body.decode("utf-8") == "训练 failed"


def test_a_webhook_gets_the_whole_message_as_json(listener: Tuple[str, Seen]) -> None:
    address, seen = listener
    assert send_all([{"kind": "webhook", "url": address + "/hook?token=a b&x=训"}], MESSAGE) == []
    path, headers, body = seen[0]
    assert path == "/hook?token=a%20b&x=%E8%AE%AD"
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body.decode("utf-8")) == MESSAGE


def test_a_title_beyond_ascii_is_encoded_and_cannot_add_headers(listener: Tuple[str, Seen]) -> None:
    address, seen = listener
    evil = dict(MESSAGE, title="训练\r\nX-Evil: 1")
    assert send_all([{"kind": "ntfy", "url": address}], evil) == []
    assert seen[0][1]["Title"].startswith("=?UTF-8?B?")
    assert "X-Evil" not in seen[0][1]


def test_one_channel_that_fails_does_not_stop_the_next_and_keeps_its_address(listener: Tuple[str, Seen]) -> None:
    address, seen = listener
    wrong = [
        {"kind": "ntfy", "url": address + "/refuse"},
        {"kind": "pigeon", "url": address},
        {"kind": "ntfy", "url": "file:///etc/passwd"},
        {"kind": "webhook", "url": "http://127.0.0.1:1/secret-token"},
        {"kind": "webhook"},
    ]
    problems = send_all([*wrong, {"kind": "webhook", "url": address + "/last"}], MESSAGE)
    assert [problem.split(":")[0] for problem in problems] == ["ntfy", "no such channel", "ntfy", "webhook", "webhook"]
    assert "403" in problems[0]
    assert "secret-token" not in "".join(problems) and "passwd" not in "".join(problems)
    assert [path for path, _, _ in seen] == ["/refuse", "/last"]
