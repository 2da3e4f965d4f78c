"""What a job's checkpoint path names: files, folders of states, patterns; the newest whole one, and its step."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path

import pytest

from leasehold.kit.files.checkpoint_states import newest_whole, states, step_of

NOW = time.time() - 1000.0


def save(root: Path, path: str, age: int, text: str = "") -> None:
    where = root / path
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_bytes(text.encode() if text else pickle.dumps(path))
    os.utime(where, (NOW + age, NOW + age))


def found(root: Path, path: str) -> list:
    return [one.path for one in states(str(root), path)]


def test_a_path_may_be_a_file_a_folder_of_states_one_state_or_a_pattern(tmp_path: Path) -> None:
    save(tmp_path, "last.pkl", 1)
    save(tmp_path, "ckpt/step-1.pkl", 2)
    save(tmp_path, "ckpt/step-2.pkl", 3)
    save(tmp_path, "ckpt/sessions.json", 4, "{}")
    save(tmp_path, "checkpoint-5/model.pkl", 5)
    save(tmp_path, "checkpoint-5/trainer_state.json", 6, '{"global_step": 7}')
    assert found(tmp_path, "last.pkl") == ["last.pkl"]
    assert found(tmp_path, "ckpt") == found(tmp_path, "ckpt/") == ["ckpt/step-2.pkl", "ckpt/step-1.pkl"]
    assert found(tmp_path, "ckpt/*") == ["ckpt/step-2.pkl", "ckpt/step-1.pkl"]
    assert found(tmp_path, "checkpoint-*") == found(tmp_path, "checkpoint-5") == ["checkpoint-5"]
    assert found(tmp_path, "absent") == found(tmp_path / "absent", "x") == []


def test_names_of_unfinished_writes_are_no_states(tmp_path: Path) -> None:
    save(tmp_path, "ckpt/step-1.pkl.tmp", 1)
    save(tmp_path, "ckpt/tmp-checkpoint-2/model.pkl", 2)
    assert found(tmp_path, "ckpt") == []


def test_the_newest_whole_state_is_found_and_torn_ones_are_named(tmp_path: Path) -> None:
    save(tmp_path, "a-1.pkl", 1)
    save(tmp_path, "a-2.pkl", 2)
    (tmp_path / "a-2.pkl").write_bytes(pickle.dumps("x" * 100)[:-10])
    newest = newest_whole(str(tmp_path), "a-*.pkl")
    assert newest.state is not None and newest.state.path == "a-1.pkl"
    assert newest.passed_over == (("a-2.pkl", "it is cut short"),)


def test_a_file_without_an_end_counts_only_where_nobody_writes_it(tmp_path: Path) -> None:
    save(tmp_path, "weights.raw", 1, "bytes")
    assert newest_whole(str(tmp_path), "weights.raw").state is None
    assert newest_whole(str(tmp_path), "weights.raw", stable=True).state is not None


@pytest.mark.parametrize(
    "name, step",
    [
        ("step-00000024.pkl", 24),
        ("checkpoint-500", 500),
        ("epoch=3-step=1200.ckpt", 1200),
        ("global_step77", 77),
        ("iter_10.pt", 10),
        ("epoch4.pt", None),
        ("best.pt", None),
        ("model-v2.pt", None),
    ],
)
def test_the_step_is_read_from_the_name(tmp_path: Path, name: str, step: object) -> None:
    save(tmp_path, name, 1)
    (state,) = states(str(tmp_path), name)
    assert step_of(str(tmp_path), state) == step


@pytest.mark.parametrize("record, key", [("trainer_state.json", "global_step"), ("leasehold.json", "step")])
def test_the_step_that_the_writer_recorded_counts_more_than_the_name(tmp_path: Path, record: str, key: str) -> None:
    save(tmp_path, "checkpoint-500/model.pkl", 1)
    save(tmp_path, f"checkpoint-500/{record}", 2, '{"%s": 501}' % key)
    (state,) = states(str(tmp_path), "checkpoint-500")
    assert step_of(str(tmp_path), state) == 501
    (tmp_path / "checkpoint-500" / record).write_text("not json")
    assert step_of(str(tmp_path), state) == 500
