"""Old code is thrown away only when nothing uses it."""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from leasehold.caretaker import pruning
from leasehold.caretaker.pruning import prune
from leasehold.caretaker.trees import lay_out, put_tree, want_tree
from leasehold.kit import frames
from leasehold.kit.tree import name_of, tree_hash, tree_text

AGO_S = 7200.0


class Asked:
    """A request as an operation sees it."""

    def __init__(self, root: Path, body: List[frames.Frame], **args: Any) -> None:
        self.root = str(root)
        self.args = args
        self.answers: List[Dict[str, Any]] = []
        self._body = body

    def reply(self, value: Dict[str, Any]) -> None:
        """Keep an answer."""
        self.answers.append(value)

    def body(self) -> Iterator[frames.Frame]:
        """Yield what home sent."""
        return iter(self._body)


class Shelf:
    """A box's folder with code on it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def announce(self, files: Dict[str, bytes]) -> str:
        """Say what a tree holds, and send none of it."""
        entries = _entries(files)
        name = tree_hash(entries)
        packed = zlib.compress(tree_text(entries))
        want_tree(Asked(self.root, [frames.Frame(1, frames.DATA, packed)], tree=name))  # type: ignore[arg-type]
        return name

    def push(self, files: Dict[str, bytes]) -> str:
        """Bring a whole tree."""
        name = self.announce(files)
        head = {"blobs": [[name_of(entry), entry["bytes"]] for entry in _entries(files)]}
        sent = [
            frames.Frame(1, frames.JSON, json.dumps(head).encode()),
            frames.Frame(1, frames.DATA, b"".join(files.values())),
        ]
        if not self.whole(name):
            put_tree(Asked(self.root, sent, tree=name))  # type: ignore[arg-type]
        return name

    def whole(self, name: str) -> bool:
        """Whether a tree is here."""
        return (self.root / "trees" / (name + ".list")).exists()

    def has(self, content: bytes) -> bool:
        """Whether a file's content is here."""
        name = hashlib.sha256(content).hexdigest()
        return (self.root / "blobs" / name[:2] / name).exists()

    def prune(self, dry_run: bool = False) -> Dict[str, Any]:
        """Prune and return the answer."""
        request = Asked(self.root, [], dry_run=dry_run)
        prune(request)  # type: ignore[arg-type]
        return request.answers[-1]

    def run(self, name: str, tree: str) -> None:
        """Have a run that was planned with this tree and has not ended."""
        folder = self.root / "active" / name
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text(json.dumps({"run": name, "tree": tree, "cells": ["main"]}))


def _entries(files: Dict[str, bytes]) -> List[Dict[str, Any]]:
    return [
        {"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for path, data in files.items()
    ]


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "root")


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prune as if two hours had passed since everything was written."""
    now = time.time() + AGO_S
    monkeypatch.setattr(pruning.time, "time", lambda: now)


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
