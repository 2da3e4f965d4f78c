"""What a trainer goes on writing is taken as it was at one moment, or left out with the reason."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator, List, Tuple

import pytest

from leasehold.caretaker.artifacts import stable_view
from leasehold.caretaker.artifacts.stable_view import StableView
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.view_folders import expire, views_of
from leasehold.kit.files.globbing import Found, walk

LONG_AGO_S = 1000.0


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(str(tmp_path))
    os.makedirs(made.out("main"))
    return made


@pytest.fixture
def view(folder: RunFolder) -> Iterator[StableView]:
    made = StableView(folder, "one")
    made.open()
    yield made
    made.close(keep=False)


@contextlib.contextmanager
def writing(act: Callable[[int], None]) -> Iterator[None]:
    """Write for as long as the block lasts, fifty times a second."""
    over = threading.Event()

    def loop() -> None:
        number = 0
        while not over.is_set():
            number += 1
            act(number)
            over.wait(0.02)

    thread = threading.Thread(target=loop)
    act(0)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def listed(folder: RunFolder) -> List[Tuple[str, Found]]:
    return [("main", found) for found in walk(folder.out("main"))]


def body(number: int) -> Any:
    return {"step": number, "all": [number] * 2000}


def read(view: StableView, name: str) -> Any:
    with open(os.path.join(view.root("main"), name), encoding="utf-8") as file:
        return json.load(file)


def test_a_file_that_is_replaced_fifty_times_a_second_is_taken_whole(folder: RunFolder, view: StableView) -> None:
    path = Path(folder.out("main"), "best.json")

    def replace(number: int) -> None:
        path.with_suffix(".new").write_text(json.dumps(body(number)))
        os.replace(path.with_suffix(".new"), path)

    with writing(replace):
        taken = view.take([("main", Found("best.json", os.lstat(path)))], 5.0)
        assert [found.path for _, found in taken.files] == ["best.json"], taken
        first = read(view, "best.json")
        assert first == body(first["step"])
        while read_plain(path)["step"] < first["step"] + 5:
            time.sleep(0.01)
        assert read(view, "best.json") == first, "the view holds still"


def read_plain(path: Path) -> Any:
    return json.loads(path.read_text())


def test_a_file_that_is_rewritten_in_place_comes_as_one_version(folder: RunFolder, view: StableView) -> None:
    path = Path(folder.out("main"), "metrics.json")
    with writing(lambda number: path.write_text(json.dumps(body(number)))) as _:
        info = os.lstat(path)
        taken = view.take([("main", Found("metrics.json", info))], 5.0)
    assert [found.path for _, found in taken.files] == ["metrics.json"], taken
    found = read(view, "metrics.json")
    assert found == body(found["step"])


def test_a_file_that_is_half_written_is_left_out_with_the_reason(
    folder: RunFolder, view: StableView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stable_view, "SETTLE_S", 1.0)
    whole = pickle.dumps(list(range(1000)))
    path = Path(folder.out("main"), "last.pkl")
    path.write_bytes(whole[: len(whole) // 2])
    taken = view.take(listed(folder), 0.5)
    assert taken.files == []
    assert taken.left == [("main", "last.pkl", "it is cut short")]
    assert not os.path.exists(os.path.join(view.root("main"), "last.pkl"))


def test_a_file_that_is_gone_is_named(folder: RunFolder, view: StableView) -> None:
    path = Path(folder.out("main"), "old.json")
    path.write_text("{}")
    found = listed(folder)
    path.unlink()
    assert view.take(found, 5.0).left == [("main", "old.json", stable_view.GONE)]


def test_what_is_quiet_is_pinned_without_waiting_and_survives_its_removal(folder: RunFolder, view: StableView) -> None:
    path = Path(folder.out("main"), "ckpt", "a.bin")
    path.parent.mkdir()
    path.write_bytes(b"weights")
    os.utime(path, (time.time() - LONG_AGO_S,) * 2)
    taken = view.take(listed(folder), 5.0)
    path.unlink()
    assert [found.path for _, found in taken.files] == ["ckpt/a.bin"]
    assert Path(view.root("main"), "ckpt", "a.bin").read_bytes() == b"weights"


def test_what_would_pin_half_of_the_free_disk_is_not_pinned(
    folder: RunFolder, view: StableView, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(folder.out("main"), "a.bin")
    path.write_bytes(b"weights")
    os.utime(path, (time.time() - LONG_AGO_S,) * 2)
    monkeypatch.setattr(StableView, "_room", lambda self: 3)
    taken = view.take(listed(folder), 5.0)
    assert len(taken.files) == 1, "it is sent from where it lies"
    assert not os.path.exists(os.path.join(view.root("main"), "a.bin"))


def test_a_view_ends_with_its_pull_and_a_forgotten_one_with_time(folder: RunFolder) -> None:
    made = StableView(folder, "one")
    made.open()
    made.close(keep=True)
    assert os.listdir(views_of(folder))
    expire(folder)
    assert os.listdir(views_of(folder)), "its connection may come back"
    expire(folder, kept_s=0.0)
    assert os.listdir(views_of(folder)) == []
    held = StableView(folder, "two")
    held.open()
    expire(folder, kept_s=0.0)
    assert os.path.isdir(os.path.join(views_of(folder), "two")), "somebody reads it"
    held.close(keep=False)
    assert os.listdir(views_of(folder)) == []


def test_two_pulls_do_not_share_a_view(folder: RunFolder, view: StableView, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stable_view, "_LOCK_S", 0.0)
    with pytest.raises(OSError, match="another connection"):
        StableView(folder, "one").open()
