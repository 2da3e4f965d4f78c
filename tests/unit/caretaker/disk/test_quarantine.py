"""Put aside, bring back, delete: exact targets, each looked at again. Runs under PyPy too."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

from leasehold.caretaker.disk import quarantine
from leasehold.caretaker.disk.open_files import OpenFiles
from leasehold.caretaker.disk.walk import Bounds, Walk
from leasehold.caretaker.wire.connection import Refused


class Asked:
    """A request with its answers kept."""

    def __init__(self, root: Path, **args: Any) -> None:
        self.root = str(root)
        self.args = args
        self.answers: List[Dict[str, Any]] = []

    def reply(self, value: Dict[str, Any]) -> None:
        self.answers.append(value)


def ask(what: Callable[[Any], None], root: Path, **args: Any) -> List[Dict[str, Any]]:
    asked = Asked(root, **args)
    what(asked)
    return asked.answers


def target(path: Path) -> Dict[str, Any]:
    """Describe a cache as a survey does."""
    made = Walk("/no/root", {str(path): "cache.pip"}, Bounds(time.monotonic() + 60, 1, 1), lambda value: None)
    made.run(str(path))
    (unit,) = made.tally.units()
    return unit.as_dict()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "some" / "pip"
    (folder / "http").mkdir(parents=True)
    (folder / "http" / "a").write_bytes(os.urandom(20_000))
    (folder / "b").write_bytes(b"b")
    return folder


def test_a_quarantine_moves_lists_and_gives_back(root: Path, cache: Path) -> None:
    before = (cache / "http" / "a").read_bytes()
    first, last = ask(quarantine.take, root, targets=[target(cache)])
    assert first["done"] and not cache.exists()
    (listed,) = quarantine.stamps(str(root))
    assert (listed["stamp"], listed["items"], listed["paths"]) == (last["stamp"], 1, [str(cache)])
    back, end = ask(quarantine.undo, root, stamp=last["stamp"])
    assert back["done"] and end["left"] == 0
    assert (cache / "http" / "a").read_bytes() == before
    assert quarantine.stamps(str(root)) == [] and os.listdir(str(root / "quarantine")) == []


def test_emptying_deletes_and_forgets(root: Path, cache: Path) -> None:
    stamp = ask(quarantine.take, root, targets=[target(cache)])[-1]["stamp"]
    done, end = ask(quarantine.empty, root, stamp=stamp)
    assert done["done"] and end["left"] == 0
    assert not cache.exists() and os.listdir(str(root / "quarantine")) == []


def test_deletion_at_once_leaves_no_quarantine(root: Path, cache: Path) -> None:
    done, end = ask(quarantine.take, root, targets=[target(cache)], delete=True)
    assert done["done"] and end["stamp"] == "" and not cache.exists()
    assert not (root / "quarantine").exists()


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda cache: (cache / "new").write_bytes(b""), "changed"),
        (lambda cache: (cache / "http" / "deep").write_bytes(b"x"), "contents changed"),
        (lambda cache: (cache / "http" / "a").write_bytes(b"other"), "contents changed"),
        (lambda cache: os.rename(str(cache), str(cache) + "2"), "gone"),
    ],
)
def test_what_changed_since_it_was_shown_is_left(root: Path, cache: Path, change: Any, why: str) -> None:
    shown = target(cache)
    change(cache)
    answer = ask(quarantine.take, root, targets=[shown])[0]
    assert not answer["done"] and why in answer["problem"]


def test_another_folder_of_the_same_name_is_left(root: Path, cache: Path) -> None:
    shown = target(cache)
    os.rename(str(cache), str(cache) + "-old")
    subprocess.run(["cp", "-a", str(cache) + "-old", str(cache)], check=True)
    assert "changed since the survey" in ask(quarantine.take, root, targets=[shown])[0]["problem"]
    assert cache.exists()


def test_a_link_put_in_its_place_is_left(root: Path, cache: Path, tmp_path: Path) -> None:
    shown = target(cache)
    os.rename(str(cache.parent), str(tmp_path / "moved"))
    cache.parent.symlink_to(tmp_path / "moved")
    assert "link" in ask(quarantine.take, root, targets=[shown])[0]["problem"]


def test_what_a_process_has_open_is_left_and_the_process_named(root: Path, cache: Path) -> None:
    shown = target(cache)
    holder = subprocess.Popen(
        [sys.executable, "-c", "import sys; f = open(sys.argv[1]); print('open', flush=True); sys.stdin.read()",
         str(cache / "b")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None and holder.stdin is not None
    try:
        holder.stdout.readline()
        answer = ask(quarantine.take, root, targets=[shown])[0]
    finally:
        holder.communicate()
    assert answer["problem"] == "pid %d has it open" % holder.pid
    assert ask(quarantine.take, root, targets=[shown])[0]["done"], "and once that has ended, it goes"


def test_a_deleted_file_that_is_held_is_found_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.write_bytes(os.urandom(100_000))
    code = "import os, sys; f = open(sys.argv[1]); os.unlink(sys.argv[1]); print(1, flush=True); sys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    try:
        holder.stdout.readline()
        found = OpenFiles().deleted({os.stat(str(tmp_path)).st_dev})
    finally:
        holder.communicate()
    (mine,) = [item for item in found if item["pids"] == [holder.pid]]
    assert mine["bytes"] >= 100_000 and mine["path"].startswith(str(path))


def test_our_root_a_home_and_what_lies_above_are_never_touched(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "people" / "me"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    (root / "caretaker").mkdir()
    for path in (root, tmp_path, home, home.parent, root / "caretaker"):
        answer = ask(quarantine.take, root, targets=[target(path)])[0]
        assert not answer["done"], path
    assert not ask(quarantine.take, root, targets=[dict(target(home), path="/proc")])[0]["done"]


def test_a_run_goes_whole_and_only_when_it_has_ended(root: Path) -> None:
    run = root / "active" / "toy-1"
    (run / "out" / "main").mkdir(parents=True)
    (run / "plan.json").write_text("{}")
    (run / "journal.jsonl").write_text('{"n":1,"t":1,"k":"run_opened","cells":[]}\n')
    assert ask(quarantine.take, root, targets=[target(run)])[0]["problem"] == "the run is running"
    assert "part of a run" in ask(quarantine.take, root, targets=[target(run / "out")])[0]["problem"]
    with (run / "journal.jsonl").open("a") as file:
        file.write('{"n":2,"t":2,"k":"run_finished"}\n')
    done, last = ask(quarantine.take, root, targets=[target(run)])
    assert done["done"], done


def test_a_cut_between_list_and_rename_loses_nothing(root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(source: str, target: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", cut)
        with pytest.raises(KeyboardInterrupt):
            ask(quarantine.take, root, targets=[target(cache)])
    (listed,) = quarantine.stamps(str(root))
    assert ask(quarantine.undo, root, stamp=listed["stamp"])[-1]["left"] == 0
    assert (cache / "b").read_bytes() == b"b"


def test_undo_overwrites_nothing(root: Path, cache: Path) -> None:
    stamp = ask(quarantine.take, root, targets=[target(cache)])[-1]["stamp"]
    cache.mkdir(parents=True)
    back, end = ask(quarantine.undo, root, stamp=stamp)
    assert "something else is there now" in back["problem"] and end["left"] == 1
    os.rmdir(str(cache))
    assert ask(quarantine.undo, root, stamp=stamp)[-1]["left"] == 0
    assert (cache / "b").exists()


@pytest.mark.parametrize("stamp", ["", "../x", "20260101T000000Z/..", "20260101T000000Z"])
def test_only_stamps_that_are_here_are_opened(root: Path, stamp: str) -> None:
    with pytest.raises(Refused):
        ask(quarantine.empty, root, stamp=stamp)


@pytest.mark.parametrize("path", ["relative", "/a/../b", "/a//b"])
def test_a_path_that_is_not_plain_is_no_target(root: Path, path: str) -> None:
    shown = {"path": path, "identity": [1, 2, 3, 4], "bytes": 1, "names": 1, "length": 1}
    with pytest.raises(Refused):
        ask(quarantine.take, root, targets=[shown])


def test_odd_names_go_and_come_back(root: Path, tmp_path: Path, odd_name: str) -> None:
    folder = tmp_path / "c" / odd_name
    folder.mkdir(parents=True)
    (folder / odd_name).write_bytes(b"x")
    stamp = ask(quarantine.take, root, targets=[target(folder)])[-1]["stamp"]
    assert not folder.exists()
    ask(quarantine.undo, root, stamp=stamp)
    assert (folder / odd_name).read_bytes() == b"x"
