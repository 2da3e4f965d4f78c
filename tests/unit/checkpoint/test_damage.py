"""A checkpoint that is not what was written is never used: the one before is, and the log says so."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from leasehold.checkpoint import CheckpointError
from leasehold.checkpoint.files import load_file
from leasehold.kit.checkpoint_file import Damaged
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


def test_a_lost_index_costs_nothing(train: Train, folder: Path) -> None:
    train(3)
    (folder / "index.json").write_text("{")
    (folder / "sessions.json").unlink()
    state = {"count": 0}
    train(4, state)
    assert state["count"] == 4


def test_a_code_change_that_does_not_fit_is_an_error_and_nothing_is_set_aside(train: Train, folder: Path) -> None:
    train(2)

    class Picky(dict):
        def state_dict(self) -> dict[str, int]:
            return {}

        def load_state_dict(self, state: object) -> None:
            raise RuntimeError("size mismatch for weight")

    with pytest.raises(RuntimeError, match="size mismatch"):
        train(3, Picky(count=0))
    assert not list(folder.glob("damaged-*"))
