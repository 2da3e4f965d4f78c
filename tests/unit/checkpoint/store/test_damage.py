"""A checkpoint that is not what was written is never used: the one before is, and the log says so."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.checkpoint import CheckpointError, Keep
from leasehold.checkpoint.store.files import load_file
from leasehold.checkpoint.store.shelf import Shelf
from leasehold.kit.files.checkpoint_file import Damaged
from tests.unit.checkpoint.bed import HERE, environment
from tests.unit.checkpoint.conftest import Train


def newest(folder: Path) -> Path:
    return max(folder.glob("step-*"))


def test_a_truncated_newest_falls_back_to_the_one_before_and_says_so(train: Train, folder: Path) -> None:
    train(5)
    path = newest(folder)
    path.write_bytes(path.read_bytes()[:-10])
    state = {"count": 0}
    said = train(5, state)
    assert state["count"] == 5  # step 4's state, and one step more
    assert any("step-0000000005.safetensors is damaged and was passed over" in line for line in said)
    assert any("resumes at step 4" in line for line in said)


def test_every_flipped_bit_and_every_cut_is_noticed(train: Train, folder: Path, tmp_path: Path) -> None:
    train(2)
    whole = newest(folder).read_bytes()
    copy, chance = tmp_path / "copy", random.Random(3)
    for at in {*range(40), *range(len(whole) - 300, len(whole)), *chance.sample(range(len(whole)), 200)}:
        flipped = bytearray(whole)
        flipped[at] ^= 1 << chance.randrange(8)
        copy.write_bytes(flipped)
        with pytest.raises(Damaged):
            load_file(str(copy))
    for size in [*range(64), *chance.sample(range(len(whole)), 100)]:
        copy.write_bytes(whole[:size])
        with pytest.raises(Damaged):
            load_file(str(copy))
    copy.write_bytes(whole + b"more")
    with pytest.raises(Damaged):
        load_file(str(copy))


def test_zeros_instead_of_the_newest_fall_back(train: Train, folder: Path) -> None:
    train(3)
    path = newest(folder)
    path.write_bytes(b"\0" * path.stat().st_size)  # what some filesystems leave after a power cut
    state = {"count": 0}
    train(3, state)
    assert state["count"] == 3


def test_only_damage_is_an_error_and_not_a_fresh_start(train: Train, folder: Path) -> None:
    train(3)
    for path in folder.glob("step-*"):
        path.write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="every checkpoint in .* is damaged"):
        train(3)
    assert len(list(folder.glob("damaged-*"))) == 2
    state = {"count": 0}
    train(1, state)  # the person looked, and typed the same command again
    assert state["count"] == 1
    assert not list(folder.glob("damaged-*"))


def test_what_a_killed_writer_left_is_swept_away(train: Train, folder: Path) -> None:
    train(2)
    half = folder / ".step-0000000009.safetensors.4711.tmp"
    half.write_bytes(b"half")
    train(3)
    assert not half.exists()


@pytest.mark.full
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_kill_at_any_system_call_of_a_save_leaves_a_whole_newest_one(tmp_path: Path, kind: str) -> None:
    argv = [sys.executable, str(HERE / "programs" / "mortal.py"), str(tmp_path), kind]
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, timeout=400, check=False)
    deaths = [line.split() for line in done.stdout.splitlines() if line.startswith("DIED")]
    assert done.returncode == 0 and done.stdout.endswith("DONE\n"), done.stdout[-500:] + done.stderr
    assert {(when, step) for _, when, _, step in deaths} == {
        (when, step) for when in ("before", "within", "after") for step in ("4", "5")
    }
    assert {"open", "fsync", "close", "replace", "unlink" if kind == "file" else "rmdir"} <= {
        call[2] for call in deaths
    }


def test_a_folder_that_stood_aside_for_its_successor_comes_back(tmp_path: Path) -> None:
    shelf = Shelf(str(tmp_path))
    aside, half = tmp_path / ".step-0000000009.saved.before.4711.tmp", tmp_path / ".step-0000000009.saved.4711.tmp"
    aside.mkdir()
    half.mkdir()
    shelf.sweep()
    assert [kept.step for kept in shelf.all()] == [9] and not half.exists()


def test_the_best_is_known_by_its_file_when_a_kill_came_before_the_index(train: Train, folder: Path) -> None:
    keep = Keep(last=1, metric="loss")
    losses = [3.0, 1.0, 2.0, 4.0]
    train(2, metrics=lambda step: {"loss": losses[step]}, keep=keep)
    (folder / "index.json").unlink()
    train(4, metrics=lambda step: {"loss": losses[step]}, keep=keep)
    assert sorted(path.name[5:15] for path in folder.glob("step-*")) == ["0000000002", "0000000004"]


def test_a_lost_index_costs_nothing(train: Train, folder: Path) -> None:
    train(3)
    (folder / "index.json").write_text("{")
    (folder / "sessions.json").unlink()
    state = {"count": 0}
    train(4, state)
    assert state["count"] == 4


def test_a_code_change_that_does_not_fit_is_an_error_that_keeps_all(train: Train, folder: Path) -> None:
    train(2)

    class Picky(dict):
        def state_dict(self) -> dict[str, int]:
            return {}

        def load_state_dict(self, state: object) -> None:
            raise RuntimeError("size mismatch for weight")

    with pytest.raises(RuntimeError, match="size mismatch"):
        train(3, Picky(count=0))
    assert not list(folder.glob("damaged-*"))
