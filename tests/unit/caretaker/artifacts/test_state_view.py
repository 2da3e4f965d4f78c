"""Of each cell the newest whole state is pinned: never a torn one, and the one that home has begun goes first."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path
from typing import Any, Iterator, List

import pytest

from leasehold.caretaker.artifacts import stable_view
from leasehold.caretaker.artifacts.stable_view import StableView
from leasehold.caretaker.artifacts.state_view import Chosen, Told, choose
from leasehold.caretaker.run.run_folder import RunFolder

NOW = time.time() - 1000.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stable_view, "SETTLE_S", 1.0)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(str(tmp_path))


@pytest.fixture
def view(folder: RunFolder) -> Iterator[StableView]:
    os.makedirs(folder.out("main"))
    made = StableView(folder, "states", 0.5)
    made.open()
    yield made
    made.close(keep=False)


def write(folder: RunFolder, path: str, age: int, content: Any = None, cut: int = 0) -> Path:
    """Save a pickle; a higher age is newer."""
    where = Path(folder.out("main"), path)
    where.parent.mkdir(parents=True, exist_ok=True)
    data = pickle.dumps(content if content is not None else path)
    where.write_bytes(data[: len(data) - cut])
    os.utime(where, (NOW + age, NOW + age))
    return where


def names(chosen: Chosen) -> List[str]:
    return [found.path for _, found in chosen.files]


def test_the_newest_whole_file_is_chosen_and_its_step_told(folder: RunFolder, view: StableView) -> None:
    write(folder, "ckpt/step-10.pkl", 1)
    write(folder, "ckpt/step-20.pkl", 2)
    Path(folder.out("main"), "ckpt", "sessions.json").write_text("{}")
    chosen = choose(view, folder, ["main"], "ckpt", Told())
    assert names(chosen) == ["ckpt/step-20.pkl"]
    assert [row[:3] for row in chosen.states] == [["main", "ckpt/step-20.pkl", 20]]


def test_a_torn_newest_state_is_passed_over_and_named(folder: RunFolder, view: StableView) -> None:
    write(folder, "ckpt/step-10.pkl", 1)
    write(folder, "ckpt/step-20.pkl", 2, list(range(5000)), cut=100)
    chosen = choose(view, folder, ["main"], "ckpt/*.pkl", Told())
    assert names(chosen) == ["ckpt/step-10.pkl"]
    assert ("main", "ckpt/step-20.pkl", "it is cut short") in chosen.left


def test_a_folder_without_its_last_file_is_not_whole(folder: RunFolder, view: StableView) -> None:
    for step, files in ((100, ("model.pkl", "trainer_state.json")), (200, ("model.pkl",))):
        for name in files:
            where = write(folder, f"checkpoint-{step}/{name}", step)
            if name.endswith(".json"):
                where.write_text('{"global_step": 100}')
                os.utime(where, (NOW + step, NOW + step))
    chosen = choose(view, folder, ["main"], "checkpoint-*", Told())
    assert sorted(names(chosen)) == ["checkpoint-100/model.pkl", "checkpoint-100/trainer_state.json"]
    assert chosen.states[0][2] == 100


def test_a_chosen_state_stays_readable_when_the_trainer_removes_it(folder: RunFolder, view: StableView) -> None:
    path = write(folder, "last.pkl", 1)
    choose(view, folder, ["main"], "last.pkl", Told())
    path.unlink()
    assert Path(view.root("main"), "last.pkl").exists()


def begun(folder: RunFolder, path: str) -> List[Any]:
    info = os.stat(os.path.join(folder.out("main"), path))
    return [["main", path, info.st_size, info.st_mtime_ns]]


def test_a_state_that_home_has_is_named_and_not_sent_again(folder: RunFolder, view: StableView) -> None:
    path = write(folder, "last.pkl", 1)
    have = {"main": [[round(path.stat().st_mtime, 3), path.stat().st_size, 1]]}
    chosen = choose(view, folder, ["main"], "last.pkl", Told(None, have))
    assert chosen.files == [] and chosen.states[0][:2] == ["main", "last.pkl"]
    write(folder, "last.pkl", 2, "newer")
    assert names(choose(view, folder, ["main"], "last.pkl", Told(None, have))) == ["last.pkl"]
    assert names(choose(view, folder, ["main"], "last.pkl", Told(None, "strange"))) == ["last.pkl"]


def test_a_begun_state_is_sent_on_although_a_newer_one_is_there(folder: RunFolder, view: StableView) -> None:
    write(folder, "ckpt/step-10.pkl", 1)
    known = begun(folder, "ckpt/step-10.pkl")
    write(folder, "ckpt/step-20.pkl", 2)
    assert names(choose(view, folder, ["main"], "ckpt", Told(known))) == ["ckpt/step-10.pkl"]
    assert names(choose(view, folder, ["main"], "ckpt", Told([]))) == ["ckpt/step-20.pkl"]


def test_a_begun_state_that_was_removed_is_sent_on_from_the_kept_view(folder: RunFolder, view: StableView) -> None:
    path = write(folder, "ckpt/step-10.pkl", 1)
    known = begun(folder, "ckpt/step-10.pkl")
    choose(view, folder, ["main"], "ckpt", Told())
    view.close(keep=True)  # the connection was cut
    path.unlink()
    write(folder, "ckpt/step-20.pkl", 2)
    view.open()
    assert names(choose(view, folder, ["main"], "ckpt", Told(known))) == ["ckpt/step-10.pkl"]


def test_a_begun_state_that_changed_is_not_sent_on(folder: RunFolder, view: StableView) -> None:
    write(folder, "last.pkl", 1)
    known = begun(folder, "last.pkl")
    write(folder, "last.pkl", 2, "other")
    chosen = choose(view, folder, ["main"], "last.pkl", Told(known))
    assert Path(view.root("main"), "last.pkl").read_bytes() == pickle.dumps("other")
    assert names(chosen) == ["last.pkl"]


@pytest.mark.parametrize("said", ["no", [["main", "../x", 1, 2]], [["main"]], [["main", "a", "x", "y"]]])
def test_a_strange_list_of_begun_files_counts_as_none(folder: RunFolder, view: StableView, said: Any) -> None:
    write(folder, "last.pkl", 1)
    assert names(choose(view, folder, ["main"], "last.pkl", Told(said))) == ["last.pkl"]


def test_a_cell_without_a_state_has_none(folder: RunFolder, view: StableView) -> None:
    assert choose(view, folder, ["main"], "ckpt", Told()) == Chosen([], [], [])
