"""A state that goes home carries the job's metric, where its writer left one."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from leasehold.caretaker.refuge.best_metric import metric_of
from leasehold.caretaker.refuge.state_chart import _candidate
from leasehold.kit.files.checkpoint_states import states


@pytest.mark.parametrize("folder", ["", "ckpt/"])
def test_the_metric_in_a_name_is_read(tmp_path: Path, folder: str) -> None:
    where = tmp_path / folder / "step=5-val_loss=0.25.pkl"
    where.parent.mkdir(exist_ok=True)
    where.write_bytes(pickle.dumps(1))
    (state,) = states(str(tmp_path), folder + "*.pkl")
    one = _candidate(state)
    assert (one.kind, one.step, one.root) == ("file", 5, folder.rstrip("/"))
    assert metric_of(str(tmp_path), one, "val_loss") == 0.25
    assert metric_of(str(tmp_path), one, "accuracy") is None


def test_the_metric_in_a_trainers_log_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint-500"
    os.makedirs(folder)
    (folder / "model.pkl").write_bytes(pickle.dumps(1))
    (folder / "trainer_state.json").write_text('{"global_step": 500, "log_history": [{"eval_loss": 0.5}]}')
    (state,) = states(str(tmp_path), "checkpoint-*")
    one = _candidate(state)
    assert (one.kind, one.root, len(one.rows)) == ("folder", "checkpoint-500", 2)
    assert metric_of(str(tmp_path), one, "loss") == 0.5
