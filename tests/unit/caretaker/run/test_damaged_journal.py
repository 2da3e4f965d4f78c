"""A journal that cannot be read whole: what was folded before counts, what follows is applied, the rest is unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leasehold.caretaker.run.damaged_journal import retell
from leasehold.kit.files.journal import Journal, read_from, scan
from leasehold.kit.run.run_state import fold

_LIFE: list[tuple[str, dict[str, Any]]] = [
    ("run_opened", {"cells": ["main"], "plan_sha256": "p"}),
    ("attempt_starting", {"cell": "main", "attempt": 1}),
    ("attempt_started", {"cell": "main", "attempt": 1, "pid": 7}),
    ("attempt_ended", {"cell": "main", "attempt": 1, "code": 0}),
    ("cell_finished", {"cell": "main"}),
    ("run_finished", {}),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of a whole life."""
    journal = Journal(str(tmp_path / "journal.jsonl"))
    for kind, data in _LIFE:
        journal.append(kind, **data)
    journal.close()
    return tmp_path / "journal.jsonl"


def hurt(path: Path, *lines: int) -> None:
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(b"?\n" if number in lines else line for number, line in enumerate(whole, 1)))


@pytest.mark.parametrize("line", range(1, len(_LIFE)))
def test_what_follows_a_garbled_line_is_read_and_kept_by_the_next_writer(path: Path, line: int) -> None:
    whole = read_from(str(path), 0)[0]
    hurt(path, line)
    rest = [event for event in whole if event["n"] != line]
    assert read_from(str(path), 0) == (rest, path.stat().st_size)
    assert scan(str(path)).bad_lines == [line]
    journal = Journal(str(path))
    added = journal.append("resumed")
    journal.close()
    assert added["n"] == len(_LIFE) + 1
    assert read_from(str(path), 0)[0] == [*rest, added]


@pytest.mark.parametrize("limit", [1, 8, 64, 1000])
def test_a_limited_read_gets_past_garbled_lines(path: Path, limit: int) -> None:
    hurt(path, 2, 3, 4)
    seen: list[int] = []
    offset = 0
    for _ in range(20):
        found, offset = read_from(str(path), offset, limit)
        seen += [event["n"] for event in found]
    assert (seen, offset) == ([1, 5, 6], path.stat().st_size)


@pytest.mark.parametrize("lines", [(2,), (5,), (6,), (5, 6), (1, 2, 3, 4, 5, 6)])
def test_the_status_counts_for_lines_that_are_lost(path: Path, lines: tuple[int, ...]) -> None:
    status = json.loads(json.dumps(fold(read_from(str(path), 0)[0]).as_dict()))
    hurt(path, *lines)
    told = retell(scan(str(path)), status, begun=True)
    assert (told.run.as_dict(), told.unproven) == (status, False)
    assert "status.json counts, written after event 6" in told.words


def test_events_after_the_status_are_applied_to_it(path: Path) -> None:
    before = fold(read_from(str(path), 0)[0][:4]).as_dict()
    hurt(path, 3)
    told = retell(scan(str(path)), before, begun=True)
    assert (told.run.state, told.run.seq, told.run.cells["main"].pid, told.unproven) == ("finished", 6, 7, False)


def test_an_older_status_covers_nothing_that_was_lost_later(path: Path) -> None:
    before = fold(read_from(str(path), 0)[0][:2]).as_dict()
    hurt(path, 5)
    told = retell(scan(str(path)), before, begun=True)
    assert (told.run.state, told.unproven) == ("finished", False), "the run's end comes after it"
    assert "the run's end comes after it" in told.words

    journal = Journal(str(path))
    journal.append("resumed")
    journal.append("stop_requested")
    journal.close()
    hurt(path, 7)
    told = retell(scan(str(path)), before, begun=True)
    assert told.unproven and "nothing else says what stood there" in told.words


def test_a_line_too_many_changes_nothing(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"scribble\n", *lines[2:]]))
    told = retell(scan(str(path)), {}, begun=True)
    assert (told.run.state, told.unproven) == ("finished", False)
    assert told.words == "journal.jsonl cannot be read in line 3; no event is missing"


@pytest.mark.parametrize(("begun", "unproven"), [(True, True), (False, False)])
def test_no_journal_is_unknown_only_where_something_began(tmp_path: Path, begun: bool, unproven: bool) -> None:
    told = retell(scan(str(tmp_path / "none")), {}, begun)
    assert (told.run.state, told.unproven) == ("absent", unproven)
