"""The journal: every prefix is readable, a torn tail is cut off, and nothing that was whole is lost."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.kit.files.journal import Journal, read_from
from tests.support.examples import SOME

WORDS = st.text(max_size=12)
DATA = st.dictionaries(st.text("abcdefg", min_size=2, max_size=5), WORDS | st.integers() | st.none(), max_size=3)
EVENTS = st.lists(st.tuples(st.sampled_from(["run_opened", "beat", "run_finished"]), DATA), min_size=1, max_size=6)

NASTY = [{"why": "two\nlines\r\nand \u2028\u2029\x85 more"}, {"why": "\x00\x1b[31m\x7f"}, {"why": "训练 🏠"}]


@pytest.fixture(autouse=True)
def no_real_fsync(monkeypatch):
    """Hundreds of journals are written here; what fsync promises is the disk's business."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def write(path, events):
    journal = Journal(str(path))
    for kind, data in events:
        journal.append(kind, **data)
    journal.close()
    return journal.events


@SOME
@given(events=EVENTS)
def test_what_was_appended_is_replayed_in_order(tmp_path, events):
    path = tmp_path / "journal.jsonl"
    path.unlink() if path.exists() else None
    written = write(path, events)
    read, offset = read_from(str(path), 0)
    assert read == written
    assert offset == path.stat().st_size
    assert [event["n"] for event in read] == list(range(1, len(events) + 1))
    assert [{key: event[key] for key in event if key not in ("n", "t", "k")} for event in read] == [
        data for _, data in events
    ]


def test_text_that_looks_like_line_ends_stays_in_its_event(tmp_path):
    written = write(tmp_path / "j", [("note", data) for data in NASTY])
    assert read_from(str(tmp_path / "j"), 0)[0] == written


def test_a_tail_torn_at_any_byte_is_cut_off_and_writing_goes_on(tmp_path):
    path = tmp_path / "j"
    written = write(path, [("note", data) for data in NASTY])
    whole = path.read_bytes()
    ends = [i + 1 for i in range(len(whole)) if whole[i : i + 1] == b"\n"]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        kept = written[: sum(end <= cut for end in ends)]
        events, offset = read_from(str(path), 0)
        assert events == kept
        assert offset == max([end for end in ends if end <= cut], default=0)
        journal = Journal(str(path))
        assert journal.events == kept
        added = journal.append("after")
        journal.close()
        assert read_from(str(path), 0)[0] == kept + [added]
        assert added["n"] == len(kept) + 1


@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"garbage\n",
        b"\xff\xfe\n",
        b"[1, 2]\n",
        b'{"k": "no number"}\n',
        b'{"n": "1"}\n',
        b'{"n": 1}',
        b'{"n": 9, "k": "a"} trailing\n',
        b"\x00" * 64,
        b"\x00" * 64 + b"\n",
        b"[" * 100000 + b"\n",
    ],
)
def test_garbage_at_the_end_ends_the_prefix_and_the_next_writer_cuts_it(tmp_path, garbage):
    path = tmp_path / "j"
    written = write(path, [("one", {}), ("two", {})])
    with open(path, "ab") as file:
        file.write(garbage)
    assert read_from(str(path), 0)[0] == written
    journal = Journal(str(path))
    added = journal.append("three")
    journal.close()
    assert read_from(str(path), 0)[0] == written + [added]


@SOME
@given(tail=st.binary(max_size=80))
def test_no_tail_whatsoever_hides_or_breaks_the_events_before_it(tmp_path, tail):
    path = tmp_path / "j"
    path.write_bytes(b'{"n":1,"k":"a"}\n{"n":2,"k":"b"}\n' + tail)
    events, _ = read_from(str(path), 0)
    assert [event["k"] for event in events[:2]] == ["a", "b"]


def test_reading_goes_on_from_the_offset_it_gave(tmp_path):
    path = tmp_path / "j"
    journal = Journal(str(path))
    first = journal.append("one")
    events, offset = read_from(str(path), 0)
    assert events == [first]
    assert read_from(str(path), offset) == ([], offset)
    second = journal.append("two")
    assert read_from(str(path), offset)[0] == [second]
    journal.close()


@pytest.mark.parametrize("limit", [1, 30, 100, 1000])
def test_a_limited_read_gives_whole_events_only_and_gets_through(tmp_path, limit):
    path = tmp_path / "j"
    written = write(path, [("note", {"why": "x" * (i * 7)}) for i in range(20)])
    seen, offset = [], 0
    for _ in range(200):
        events, offset = read_from(str(path), offset, limit)
        seen += events
        if offset == path.stat().st_size:
            break
    assert seen == written


def test_an_absent_journal_is_empty(tmp_path):
    assert read_from(str(tmp_path / "none"), 0) == ([], 0)


def test_the_second_writer_continues_the_numbers(tmp_path):
    write(tmp_path / "j", [("one", {}), ("two", {})])
    write(tmp_path / "j", [("three", {})])
    assert [event["n"] for event in read_from(str(tmp_path / "j"), 0)[0]] == [1, 2, 3]


def test_an_event_is_on_disk_before_append_returns(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size))
    journal = Journal(str(tmp_path / "j"))
    journal.append("one")
    journal.close()
    assert synced == [(tmp_path / "j").stat().st_size]


def test_a_half_failed_append_is_not_counted_or_glued_to_the_next(tmp_path, monkeypatch):
    """A full disk takes half a line; once there is room again the same caretaker goes on writing."""
    path = tmp_path / "j"
    journal = Journal(str(path))
    first = journal.append("one")
    real_write = os.write

    def half(fd, data):
        if len(data) > 10:
            return real_write(fd, bytes(data[:10]))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError):
        journal.append("two", why="x" * 12)
    monkeypatch.setattr(os, "write", real_write)
    third = journal.append("three")
    journal.close()
    assert read_from(str(path), 0)[0] == [first, third]


def test_a_hundred_thousand_events_replay(tmp_path):
    path = tmp_path / "j"
    count = 100_000
    with open(path, "wb") as file:
        for n in range(1, count + 1):
            file.write(b'{"n":%d,"t":%d.5,"k":"beat","step":%d}\n' % (n, n, n * 3))
        file.write(b'{"n":100001,"t":1.0,"k":"torn')
    journal = Journal(str(path))
    assert len(journal.events) == count
    assert sum(event["step"] for event in journal.events) == 3 * count * (count + 1) // 2
    assert journal.append("last")["n"] == count + 1
    journal.close()
    events, offset = read_from(str(path), 0)
    assert (len(events), offset) == (count + 1, path.stat().st_size)
    assert json.loads(path.read_bytes().splitlines()[-1])["k"] == "last"


def test_events_that_follow_are_durable_with_the_next_leader_or_the_end(tmp_path, monkeypatch):
    synced = []
    journal = Journal(str(tmp_path / "journal.jsonl"), frozenset(["told"]))
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(journal.events[-1]["n"] if journal.events else 0))
    for kind in ("told", "decided", "told", "told"):
        journal.append(kind)
    assert len(synced) == 1
    assert [event["n"] for event in read_from(journal.path, 0)[0]] == [1, 2, 3, 4]  # whoever reads sees them at once
    journal.close()
    assert len(synced) == 2


def test_a_journal_whose_last_event_is_durable_is_not_synced_again(tmp_path, monkeypatch):
    synced = []
    journal = Journal(str(tmp_path / "journal.jsonl"), frozenset(["told"]))
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(fd))
    journal.append("told")
    journal.append("decided")
    journal.close()
    assert len(synced) == 1
