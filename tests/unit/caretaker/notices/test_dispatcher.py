"""New journal events become notices, sent by real children to loopback servers. Runs under PyPy too."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import pytest

from leasehold.caretaker.notices.dispatcher import Watcher
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.events.table import notice_text, notified
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.files.journal import Journal
from leasehold.kit.run.processes import environment, is_alive
from tests.support.vendors import SECRET, Said, Vendors, vendors

SOURCES = Path(__file__).resolve().parents[4] / "src"
PATIENCE_S = 60.0


class Bed:
    """A run folder with a journal, a vendor, a watcher that can be killed and born again, and a clock."""

    def __init__(self, folder: RunFolder, vendor: Vendors) -> None:
        self.folder = folder
        self.vendor = vendor
        self.ahead_s = 0.0
        self.noted: List[Tuple[str, Dict[str, Any]]] = []
        self.journal = Journal(folder.journal)
        self.note("run_opened", cells=["main"], plan_sha256="x", pid=1)
        self.wish()
        self.reborn()

    def note(self, kind: str, **data: Any) -> None:
        self.journal.append(kind, **data)

    def wish(self, *channels: Dict[str, str], **more: Any) -> None:
        chosen = list(channels) or [self.vendor.channel("webhook")]
        write_json(self.folder.notify, {"channels": chosen, "price": "1.98USD/h", "box": "ssh:gpu1", **more})

    def reborn(self) -> None:
        """The caretaker was killed: all that is left is the folder."""
        note = lambda kind, **data: self.noted.append((kind, data))  # noqa: E731
        self.watcher = Watcher(self.folder, {}, note, lambda: time.time() + self.ahead_s)

    def until(self, true: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, self.watcher.outbox.value
            self.watcher.step()
            time.sleep(0.01)

    def settle(self) -> None:
        """Let what came together be ripe, and everything be sent."""
        self.watcher.step()
        self.ahead_s += 5.0
        self.until(lambda: self.watcher.quiet)

    @property
    def told(self) -> List[Dict[str, Any]]:
        return [seen.value for seen in self.vendor.seen]


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    door = tmp_path / "door.py"
    door.write_text("import sys; sys.path.insert(0, %r)\n" % str(SOURCES), encoding="utf-8")
    with door.open("a", encoding="utf-8") as file:
        file.write("from leasehold.caretaker.entry import main\nsys.exit(main(sys.argv[1:]))\n")
    monkeypatch.setattr(sys, "argv", [str(door)])
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    folder = RunFolder.below(str(tmp_path), "toy-0123456789")
    os.makedirs(folder.path)
    os.makedirs(os.path.dirname(folder.notify))
    with vendors() as vendor:
        yield Bed(folder, vendor)


# ---------------------------------------------------------------- what is told


def test_an_alarm_is_told_once_with_its_id(bed: Bed) -> None:
    bed.note(
        "alarm_raised",
        name="disk_bytes",
        level="alarm",
        what="/data is nearly full",
        seen="97 %",
        hint="lease box disk",
    )
    bed.settle()
    for _ in range(5):
        bed.watcher.step()
    (said,) = bed.told
    assert said["id"] == "toy-0123456789-2" and said["title"] == "toy-0123456789: alarm #2"
    assert said["text"].splitlines() == [
        "/data is nearly full: 97 %. Do: lease box disk",
        "Look: lease watch toy-0123456789",
    ]
    assert (said["priority"], said["box"], said["state"]) == ("high", "ssh:gpu1", "running")


def test_events_that_belong_together_come_as_one_notice(bed: Bed) -> None:
    bed.note("scratch_pruned", cell="main", files=3, freed_bytes=9000, kept=[])
    bed.note("failure_classed", cell="main", **{"class": "probabilistic"}, why="CUDA launch failure", signs=["X1"])
    bed.note("remedy_chosen", cell="main", remedy="again", why="first of three", wait_s=30)
    bed.settle()
    (said,) = bed.told
    assert said["text"].splitlines()[:3] == [
        "Remedy: run the same command again in 30 s: first of three",
        "Pruned 3 scratch files, 9.0 kB",
        "Why it failed: probabilistic: CUDA launch failure",
    ]


def test_the_last_notice_says_state_class_remedy_price_and_next_command(bed: Bed) -> None:
    bed.note("failure_classed", cell="main", **{"class": "bug"}, why="KeyError: 'lr'", signs=[])
    bed.note("remedy_chosen", cell="main", remedy="stop", why="a bug does not go away by itself", wait_s=0)
    bed.note("cell_failed", cell="main", why="attempt 1 exited with code 1")
    bed.note("run_failed", reason="main: attempt 1 exited with code 1")
    bed.until(lambda: bed.told)  # at once: nobody waits for the end
    assert bed.told[0]["title"] == "toy-0123456789 failed #5"
    assert bed.told[0]["text"] == (
        "toy-0123456789 just failed (main: attempt 1 exited with code 1). Why it failed: bug: KeyError: 'lr'."
        " Remedy: none; it stays stopped: a bug does not go away by itself. The box still bills 1.98USD/h."
        " Next: lease logs toy-0123456789; the same lease run resumes it"
    )


def test_only_the_chosen_topics_are_told(bed: Bed) -> None:
    bed.wish(on=["budget"])
    bed.note("stalled", cell="main", since_unix=1000.0, evidence=["log silent"])
    bed.note("budget_warned", percent=80, spent="8.0000", limit="10", currency="USD", budget="10USD")
    bed.settle()
    (said,) = bed.told
    assert [event["k"] for event in said["events"]] == ["budget_warned"]


def test_the_usual_topics_leave_the_beginning_out(bed: Bed) -> None:
    bed.settle()
    assert bed.told == []


def test_what_flapped_is_counted_in_the_next_notice(bed: Bed) -> None:
    bed.note("alarm_raised", name="gpu_idle", level="warn", what="card 0 idles")
    bed.settle()
    for _ in range(7):
        bed.note("alarm_raised", name="gpu_idle", level="warn", what="card 0 idles")
        bed.note("alarm_cleared", name="gpu_idle", level="warn", what="card 0 idles")
        bed.watcher.step()
    bed.ahead_s += 70.0
    bed.until(lambda: len(bed.told) == 2)
    lines = bed.told[1]["text"].splitlines()
    assert lines[0].endswith("(7 times)") and lines[1].endswith("(7 times)")
    assert lines[2].startswith("(14 events since ") and "in one notice" in lines[2]


@pytest.mark.parametrize("odd", [{"took_s": "soon"}, {"took_s": [1]}, {"evidence": 7}, {}])
def test_an_event_of_another_age_is_told_as_well_as_can_be(bed: Bed, odd: Dict[str, Any]) -> None:
    bed.note("fast_finished", cell="main", **odd)
    bed.note("stalled", cell="main", **odd)
    bed.settle()
    assert len(bed.told) == 1


# ---------------------------------------------------------------- killed, cut off, full


def test_a_caretaker_that_dies_before_it_sends_is_followed_by_another(bed: Bed) -> None:
    bed.note("stalled", cell="main", since_unix=1000.0, evidence=["log silent"])
    bed.watcher.step()
    bed.reborn()
    bed.settle()
    bed.reborn()
    bed.settle()
    assert len(bed.told) == 1


def test_a_caretaker_that_dies_while_its_child_sends_does_not_send_again(bed: Bed) -> None:
    bed.note("run_finished")
    bed.until(lambda: bed.watcher.outbox.flight)
    bed.reborn()
    bed.until(lambda: bed.watcher.quiet)
    assert len(bed.told) == 1


def test_a_caretaker_that_dies_between_noting_and_sending_sends_after_all(bed: Bed) -> None:
    bed.note("run_finished")
    bed.watcher._collect(dict(read_json(bed.folder.notify) or {}, run=bed.folder.run))
    now = time.time()
    keys = [[one["key"], one["last"]] for one in bed.watcher.outbox.waiting]
    bed.watcher.outbox.depart({"tells": {"webhook": keys}, "began_unix": now}, now)
    bed.watcher.outbox.save()
    bed.reborn()
    bed.until(lambda: not bed.watcher.outbox.flight)
    bed.ahead_s += 70.0
    bed.until(lambda: bed.watcher.quiet)
    assert len(bed.told) == 1


def test_a_killed_child_is_a_failure_journaled_once_and_made_good(bed: Bed) -> None:
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen(5)
    bed.wish(dict(bed.vendor.channel("webhook"), url="http://127.0.0.1:%d/x-secret-path" % silent.getsockname()[1]))
    bed.note("run_finished")
    for _ in range(2):
        bed.until(lambda: (bed.watcher.outbox.flight or {}).get("pid"))
        child = (bed.watcher.outbox.flight or {})["pid"]
        bed.until(lambda child=child: _group(child) == child)  # it leads a group of its own once it runs
        os.killpg(child, signal.SIGKILL)
        bed.until(lambda: not bed.watcher.outbox.flight)
        bed.ahead_s += 1000.0
    assert bed.noted == [("notice_failed", {"channel": "webhook", "why": "the sender ended without a result"})]
    bed.wish()
    bed.until(lambda: bed.watcher.quiet)
    assert [kind for kind, _ in bed.noted] == ["notice_failed", "notice_back"]
    assert "(late: " in bed.told[0]["text"]
    silent.close()


def test_a_child_that_hangs_is_killed_and_shows_no_secret_meanwhile(bed: Bed) -> None:
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen(5)
    address = "http://127.0.0.1:%d/x-secret-path" % silent.getsockname()[1]
    bed.wish({"name": "chat", "kind": "feishu", "url": address, "secret": SECRET})
    bed.note("run_finished")
    bed.until(lambda: (bed.watcher.outbox.flight or {}).get("pid"))
    flight = dict(bed.watcher.outbox.flight or {})
    connection, _ = silent.accept()  # it has begun
    shown = "".join(_everything_shown(flight["pid"]))
    assert "tell" in shown and "notice" in shown
    assert "secret-path" not in shown and SECRET not in shown
    bed.ahead_s += 1000.0
    bed.until(lambda: not bed.watcher.outbox.flight)
    assert not is_alive(flight["pid"], flight["started"])
    assert bed.noted[0][0] == "notice_failed"
    connection.close()
    silent.close()


def _everything_shown(group: int) -> Iterator[str]:
    """What other users of the box may see of our children, and what their children inherit."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        lines = {pid: _cmdline(pid) for pid in pids if _group(pid) == group}
        if len(lines) > 1 and any("notice" in line for line in lines.values()):
            for pid, line in lines.items():
                yield line + str(environment(pid))
            return
        time.sleep(0.01)


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def _cmdline(pid: int) -> str:
    try:
        return Path("/proc/%d/cmdline" % pid).read_bytes().decode("utf-8", "replace").replace("\0", " ")
    except OSError:
        return ""


def test_what_nobody_could_be_told_is_told_when_the_way_is_free(bed: Bed) -> None:
    bed.vendor.first += [Said(403, b"closed")] * 2
    bed.note("alarm_raised", name="memory", level="alarm", what="memory is nearly used up")
    bed.watcher.step()
    bed.ahead_s += 5.0
    bed.until(lambda: bed.noted)
    bed.note("stalled", cell="main", since_unix=1000.0, evidence=[])
    bed.ahead_s += 3600.0
    bed.until(lambda: len(bed.vendor.seen) == 2 and not bed.watcher.outbox.flight)
    bed.ahead_s += 3600.0
    bed.until(lambda: bed.watcher.quiet)
    assert {event["k"] for event in bed.told[-1]["events"]} == {"alarm_raised", "stalled"}


def test_a_disk_that_takes_no_file_does_not_keep_the_news_from_going_out(bed: Bed) -> None:
    for path in (bed.folder.notices, bed.folder.notices_done):
        os.mkdir(path)  # nothing can be written there, whoever we are
    bed.note("alarm_raised", name="disk_bytes", level="alarm", what="the disk is full")
    bed.settle()
    assert len(bed.told) == 1 and bed.noted == []


def test_without_a_channel_nothing_is_kept_and_nothing_raises(bed: Bed) -> None:
    os.unlink(bed.folder.notify)
    bed.note("run_finished")
    bed.watcher.step()
    assert not os.path.exists(bed.folder.notices)
    os.unlink(bed.folder.journal)
    bed.watcher.step()


def test_a_channel_that_came_later_does_not_hear_of_an_earlier_life(bed: Bed) -> None:
    bed.note("run_failed", reason="yesterday")
    bed.note("resumed", by="me", pid=2)
    bed.note("stalled", cell="main", since_unix=1000.0, evidence=[])
    bed.settle()
    assert [event["k"] for said in bed.told for event in said["events"]] == ["stalled"]


def test_no_secret_lies_in_the_run_folder(bed: Bed) -> None:
    bed.wish(bed.vendor.channel("dingtalk", secret=SECRET), bed.vendor.channel("ntfy", token="tk_abcdef123"))
    bed.vendor.first.append(Said(403, ("tk_abcdef123 dingtalk-secret my-secret-topic " + SECRET).encode("utf-8")))
    bed.note("run_finished")
    bed.until(lambda: bed.noted)
    text = str(bed.noted) + "".join(path.read_text("utf-8") for path in Path(bed.folder.path).iterdir())
    assert bed.vendor.seen
    for secret in ("tk_abcdef123", "dingtalk-secret", "my-secret-topic", SECRET):
        assert secret not in text


def test_a_beginning_at_zero_is_told_and_an_attempt_that_continued_is_not() -> None:
    event = {"k": "attempt_began", "cell": "main", "attempt": 2, "began": 0, "first": 0, "reached": 154, "before": 1}
    assert notified(event) is not None
    assert notice_text(event) == "Cell main: attempt 2 began at step 0 although attempt 1 had reached 154"
    assert notified({**event, "began": 150}) is None
