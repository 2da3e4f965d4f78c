"""The matcher on its own: positions, counts, pieces, carriage returns, soft signs, ranks, bounds."""

from __future__ import annotations

import random

import pytest

from leasehold.kit.failure.catalogue import Book, shipped
from leasehold.kit.failure.log_scan import Scanner, scan

BOOK = Book(
    {
        "format": 1,
        "anchors": ["boom", "nopes", "hicc"],
        "entries": [
            {"id": "BOOM", "class": "bug", "signs": [{"re": r"boom \d{1,3}", "any": ["boom "]}]},
            {"id": "OFTEN", "class": "bug", "least": 3, "signs": [{"re": "nopes", "any": ["nopes"]}]},
            {"id": "SOFT", "class": "transport", "soft": True, "signs": [{"re": "hiccup", "any": ["hiccup"]}]},
            {"id": "LATER", "class": "bug", "signs": [{"re": "boom", "any": ["boom"], "after": "in backward"}]},
        ],
    }
)


def found(text, book=BOOK):
    read = scan(book, [text if isinstance(text, bytes) else text.encode()])
    return {book.entries[hit.entry].id: hit for hit in read.hits}


def test_a_hit_says_line_offset_and_count():
    hit = found("one\ntwo boom 7 here\nboom 8\n")["BOOM"]
    assert (hit.first.line, hit.first.offset, hit.first.text, hit.times) == (2, 4, "two boom 7 here", 2)
    assert (hit.last.line, hit.last.offset) == (3, 20)


def test_a_literal_without_its_regex_is_nothing():
    assert found("boom x\n") == {}


def test_a_sign_with_a_least_count_needs_that_many_lines():
    assert "OFTEN" not in found("nopes\nnopes\n")
    assert found("nopes nopes\nnopes\nnopes\n")["OFTEN"].times == 3


def test_a_progress_bar_does_not_hide_or_repeat_a_line():
    text = "\r".join("step %d/100 loss 0.1" % n for n in range(50)) + "\rboom 5\r" + "step 9\nboom 6\n"
    hit = found(text)["BOOM"]
    assert (hit.times, hit.first.line, hit.first.text) == (2, 1, "boom 5")


def test_what_must_come_first_is_looked_for_in_the_same_traceback():
    assert "LATER" in found("Traceback (most recent call last):\n  in backward\nboom\n")
    apart = "Traceback (most recent call last):\n  in backward\nError\nTraceback (most recent call last):\nboom\n"
    assert "LATER" not in found(apart)


@pytest.mark.parametrize(
    "after, stands",
    [
        ("", True),
        ("giving up\n", True),
        ("Epoch 3: loss 0.2\n", False),
        ("Successfully installed torch\n", False),
        (" 14%|#4 | 378/2724 [13:58:09<86:18:35]\n", False),
        ("x" * 20_000 + "\n", False),
    ],
)
def test_a_soft_sign_counts_only_when_the_run_did_not_go_on(after, stands):
    assert ("SOFT" in found("hiccup\n" + after)) is stands


def test_ranks_are_read_from_the_line():
    text = "[rank3]: boom 1\n[Rank 5] boom 2\n[PG ID 0 PG GUID 0(default_pg) Rank 1] boom 3\n7: boom 4\nboom 9\n"
    hit = found(text)["BOOM"]
    assert (hit.rank, hit.ranks) == (3, (3, 5, 1, 7))


def test_the_time_before_a_line_is_kept():
    assert found("2024-05-06 07:08:09,5 - INFO\n  frame\nboom 1\n")["BOOM"].stamp == "05-06 07:08:09.5"
    assert found("[E626 06:24:44.90 x.cpp:616] boom 1\n")["BOOM"].stamp == "06-26 06:24:44.90"


def test_pieces_of_any_size_give_the_same_result():
    rng = random.Random(3)
    lines = [rng.choice(["step 1", "boom %d" % n, "nopes", "x" * rng.randrange(200)]) for n in range(400)]
    data = "\n".join(lines).encode()
    whole = scan(BOOK, [data])
    for size in (1, 7, 4096):
        assert scan(BOOK, [data[at : at + size] for at in range(0, len(data), size)]) == whole


def test_a_block_border_inside_a_line_changes_nothing(monkeypatch):
    monkeypatch.setattr("leasehold.kit.failure.log_scan._BLOCK_BYTES", 64)
    data = b"".join(b"line %d boom %d\n" % (n, n % 10) for n in range(200))
    scanner = Scanner(BOOK)
    for at in range(0, len(data), 50):
        scanner.feed(data[at : at + 50])
    read = scanner.finish()
    (hit,) = [hit for hit in read.hits if BOOK.entries[hit.entry].id == "BOOM"]
    assert (hit.times, hit.first.line, hit.last.line, read.lines) == (200, 1, 200, 200)


def test_a_line_without_end_is_read_within_bounds():
    text = b"y" * 5_000_000 + b" boom 1 " + b"z" * 5_000_000
    hit = found(text)["BOOM"]
    assert hit.first.line == 1
    assert len(hit.first.text) <= 8192


def test_bytes_that_are_no_text_are_read_past():
    assert found(b"\xff\xfe\x00boom 1\xff\n")["BOOM"].times == 1


def test_nothing_is_nothing():
    assert scan(BOOK, []).hits == []
    assert scan(BOOK, [b""]).size == 0


def test_the_shipped_book_opens_and_knows_its_ids():
    book = shipped()
    assert book.entries[book.index_of()["U10"]].tier < book.entries[book.index_of()["P8"]].tier
    assert book.literals()


def test_another_format_is_refused():
    with pytest.raises(ValueError, match="format"):
        Book({"format": 2, "anchors": [], "entries": []})


def test_a_literal_that_no_anchor_leads_to_is_refused():
    entry = {"id": "X", "class": "bug", "signs": [{"re": "abc", "any": ["abc"]}]}
    with pytest.raises(ValueError, match="anchor"):
        Book({"format": 1, "anchors": ["zzz"], "entries": [entry]})
