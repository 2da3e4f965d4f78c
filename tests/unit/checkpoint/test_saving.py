"""What is kept, what a full disk does, who may write, and what the log says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.checkpoint import Checkpointer, CheckpointError, Keep
from leasehold.checkpoint.store.locking import FolderLock
from leasehold.kit.text.progress import ProgressReader
from tests.support.front import Tmpfs
from tests.support.parts import missing_namespaces
from tests.unit.checkpoint.bed import HERE, environment
from tests.unit.checkpoint.conftest import Train


def steps_in(folder: Path) -> list[int]:
    return sorted(int(path.stem.partition("-")[2]) for path in folder.glob("step-*"))


def test_the_newest_two_stay(train: Train, folder: Path) -> None:
    train(6)
    assert steps_in(folder) == [5, 6]
    assert sorted(json.loads((folder / "index.json").read_text())["checkpoints"]) == ["5", "6"]


def test_the_best_stays_whatever_comes_after(train: Train, folder: Path) -> None:
    losses = [5.0, 1.0, 3.0, float("nan"), 2.0, 4.0]
    train(6, metrics=lambda step: {"val_loss": losses[step]}, keep=Keep(last=1, metric="val_loss"))
    assert steps_in(folder) == [2, 6]


def test_top_k_by_a_metric_that_should_be_high(train: Train, folder: Path) -> None:
    keep = Keep(last=1, metric="acc", mode="max", top=2)
    train(6, metrics=lambda step: {"acc": [3, 9, 4, 8, 1, 2][step]}, keep=keep)
    assert steps_in(folder) == [2, 4, 6]


def test_the_best_so_far_is_remembered_over_a_restart(tmp_path: Path) -> None:
    keep, values = Keep(last=1, metric="acc", mode="max"), [1.0, 7.0, 3.0, 5.0]
    saved = []
    for until in (2, 4):
        with Checkpointer(str(tmp_path), keep=keep, every_steps=10**9, say=lambda line: None) as ckpt:
            for step in range(ckpt.restore(state={}).step, until):
                if ckpt.step(step, metrics={"acc": values[step]}):
                    saved.append(step)
    assert saved == [0, 1]  # 3 and 5 do not beat the 7 of the first start


def test_a_second_training_in_the_same_folder_is_refused(folder: Path) -> None:
    with Checkpointer(str(folder), say=lambda line: None) as first:
        first.restore(state={})
        with pytest.raises(CheckpointError, match="another process saves into"):
            Checkpointer(str(folder), say=lambda line: None).restore(state={})
    Checkpointer(str(folder), say=lambda line: None).restore(state={})


def test_a_second_training_is_refused_though_the_lock_file_was_deleted(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    program = "import sys; from leasehold.checkpoint.store.locking import FolderLock; "
    program += "lock = FolderLock(sys.argv[1]); lock.take(); "
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3] / "src")}
    with subprocess.Popen(
        [sys.executable, "-c", program + "print('held', flush=True); input()", str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
    ) as first:  # fmt: skip
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        (folder / ".lock").unlink()
        with pytest.raises(CheckpointError, match="another process saves into"):
            FolderLock(str(folder)).take()
        first.kill()


def test_a_part_without_a_state_is_named(folder: Path) -> None:
    with Checkpointer(str(folder), every_steps=1, say=lambda line: None) as ckpt:
        ckpt.restore(model=object())
        with pytest.raises(TypeError, match="model is a object, which has no state_dict"):
            ckpt.step(0)


def test_a_step_before_restore_is_refused(folder: Path) -> None:
    with Checkpointer(str(folder)) as ckpt, pytest.raises(CheckpointError, match="call restore"):
        ckpt.step(0)


def test_an_exception_in_the_loop_saves_nothing_half_done(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError), Checkpointer(str(folder), say=lambda line: None) as ckpt:
        ckpt.restore(state={})
        ckpt.step(0)
        raise ZeroDivisionError
    assert steps_in(folder) == []


def test_progress_is_what_lease_watch_reads(folder: Path) -> None:
    said: list[str] = []
    with Checkpointer(str(folder), total=40, every_steps=9, say=said.append) as ckpt:
        for step in range(ckpt.restore(state={}).step, 40):
            ckpt.step(step, metrics={"loss": 2.5, "val_acc": 0.75}, epoch=1)
    reader = ProgressReader()
    reader.feed("\n".join([*said, ""]), 1.0)
    assert any("saved step" in line for line in said)
    assert (reader.now.step, reader.now.total, reader.now.loss, reader.now.epoch) == (40, 40, 2.5, 1.0)
    assert reader.now.metrics["val_acc"] == 0.75
    assert reader.now.restarts == 0


@pytest.mark.namespaces
def test_a_full_disk_keeps_the_old_one_and_says_so(tmp_path: Path) -> None:
    problem = missing_namespaces()
    if problem:
        pytest.skip(problem)
    disk = Tmpfs(tmp_path, "size=4m")
    argv = [*disk.words(), sys.executable, str(HERE / "programs" / "growing.py"), str(tmp_path / "ckpt")]
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "NOT saved at step 4" in done.stderr and "No space left on device" in done.stderr
    assert "the one of step 2 stays" in done.stderr
    assert "CheckpointError: the last save failed" in done.stderr  # a run must not end well without its last state
    assert "LEFT step-0000000001.safetensors step-0000000002.safetensors" in done.stdout  # seen from inside
    assert "AGAIN 2" in done.stdout
