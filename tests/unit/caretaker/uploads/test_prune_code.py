"""Old code is thrown away only when nothing uses it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from leasehold.caretaker.uploads import prune_code
from leasehold.caretaker.uploads.trees import lay_out
from tests.support.shelf import Shelf

AGO_S = 7200.0


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "root")


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prune as if two hours had passed since everything was written."""
    now = time.time() + AGO_S
    monkeypatch.setattr(prune_code.time, "time", lambda: now)


def test_old_trees_go_and_files_that_only_they_had(shelf: Shelf, later: None, tmp_path: Path) -> None:
    old = [shelf.push({"same": b"same", "own": b"old %d" % number}) for number in range(3)]
    for age, name in enumerate(old):
        os.utime(shelf.root / "trees" / (name + ".list"), (1000 + age, 1000 + age))
    kept = [shelf.push({"same": b"same", "own": b"new %d" % number}) for number in range(2)]
    answer = shelf.prune()
    assert (sorted(answer["trees"]), answer["kept"], answer["blobs"]) == (sorted(old), 2, 3)
    assert answer["bytes"] == 3 * len(b"old 0")
    assert not shelf.has(b"old 0")
    for number, name in enumerate(kept):
        lay_out(str(shelf.root), name, str(tmp_path / str(number)))


def test_a_look_removes_nothing_and_says_what_it_would_be(shelf: Shelf, later: None) -> None:
    names = [shelf.push({"own": b"%d" % number}) for number in range(4)]
    said = shelf.prune(dry_run=True)
    assert (len(said["trees"]), said["blobs"]) == (2, 2)
    assert all(map(shelf.whole, names))
    assert shelf.prune() == said


def test_the_tree_of_a_run_that_may_be_resumed_stays(shelf: Shelf, later: None, tmp_path: Path) -> None:
    names = [shelf.push({"own": b"%d" % number}) for number in range(4)]
    for age, name in enumerate(names):
        os.utime(shelf.root / "trees" / (name + ".list"), (1000 + age, 1000 + age))
    shelf.run("job-1", names[0])
    assert shelf.prune()["trees"] == [names[1]]
    lay_out(str(shelf.root), names[0], str(tmp_path / "copy"))


def test_what_was_just_pushed_stays_though_nothing_uses_it_yet(shelf: Shelf) -> None:
    names = [shelf.push({"own": b"%d" % number}) for number in range(5)]
    assert shelf.prune()["trees"] == []
    assert all(map(shelf.whole, names))


def test_a_file_that_a_coming_tree_was_promised_stays(shelf: Shelf, later: None) -> None:
    first = shelf.push({"old": b"promised"})
    for number in range(3):
        shelf.push({"own": b"%d" % number})
    os.utime(shelf.root / "trees" / (first + ".list"), (1000, 1000))
    coming = {"old": b"promised", "new": b"on its way"}
    shelf.announce(coming)
    assert first in shelf.prune()["trees"]
    assert shelf.has(b"promised")
    assert shelf.whole(shelf.push(coming))


@pytest.mark.parametrize("broken", ["a plan", "a list"])
def test_with_anything_unreadable_no_file_goes(shelf: Shelf, later: None, broken: str) -> None:
    names = [shelf.push({"own": b"%d" % number}) for number in range(4)]
    if broken == "a plan":
        shelf.run("job-1", "")
    else:
        (shelf.root / "trees" / ("0" * 64 + ".list")).write_bytes(b"not a list")
        os.utime(shelf.root / "trees" / ("0" * 64 + ".list"))
    answer = shelf.prune()
    assert answer["blobs"] == 0
    assert all(shelf.has(b"%d" % number) for number in range(4))
    assert broken == "a list" or all(map(shelf.whole, names))
