"""Whoever is about to stop a training asks for a save first: a file is the question, a file beside it the answer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from leasehold.checkpoint import Checkpointer
from leasehold.checkpoint.decide.save_interval import Sessions
from leasehold.checkpoint.decide.save_requests import REQUEST, Wishes
from leasehold.kit.run.cadence import QUIET_GAP_S


@pytest.fixture
def request_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path that the training is told of."""
    monkeypatch.delenv("LEASE_OUT", raising=False)
    monkeypatch.setenv(REQUEST, str(tmp_path / "save-request"))
    return tmp_path / "save-request"


def answer(asked: Path) -> str:
    done = asked.with_name(asked.name + ".done")
    return done.read_text() if done.exists() else ""


def touch(path: Path, after_s: int = 0) -> None:
    """Lay a request down; a later one carries a later time."""
    path.write_text("")
    now = path.stat().st_mtime_ns + after_s * 10**9
    os.utime(path, ns=(now, now))


def quiet(folder: Path, **options: Any) -> Checkpointer:
    return Checkpointer(str(folder / "ckpt"), every_steps=10**9, say=lambda line: None, **options)


def test_a_request_saves_the_next_step_and_is_answered_once_on_disk(tmp_path: Path, request_file: Path):
    with quiet(tmp_path) as ckpt:
        ckpt.restore(state={"count": 0})
        touch(request_file)
        assert ckpt.step(0)
        ckpt.wait()
        assert answer(request_file) == "1\n"
        assert (tmp_path / "ckpt" / "step-0000000001.safetensors").exists()
        assert request_file.exists()  # it is its writer's


def test_a_request_is_looked_for_once_a_second_and_each_asks_for_one_save(request_file: Path) -> None:
    wishes = Wishes({REQUEST: str(request_file)})
    wishes.look(10.0)
    touch(request_file)
    wishes.look(10.9)
    assert not wishes.save
    wishes.look(11.0)
    assert wishes.save
    wishes.save = False
    wishes.look(12.0)
    assert not wishes.save
    wishes.answer(wishes.heard, 7)
    touch(request_file, after_s=60)
    wishes.look(13.0)
    assert wishes.save


def test_a_request_that_an_earlier_attempt_answered_is_not_answered_again(tmp_path: Path, request_file: Path) -> None:
    touch(request_file)
    with quiet(tmp_path) as ckpt:
        ckpt.restore(state={})
        assert ckpt.step(0)
    with quiet(tmp_path) as ckpt:
        ckpt.restore(state={})
        assert not ckpt.step(1)


def test_a_request_that_cannot_be_met_gets_no_answer_and_training_goes_on(
    tmp_path: Path, request_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.checkpoint.checkpointer.free_bytes", lambda folder: 0)
    touch(request_file)
    with quiet(tmp_path) as ckpt:
        ckpt.restore(state={"count": 0})
        ckpt.step(0)
        ckpt.wait()
        assert not answer(request_file)
        monkeypatch.undo()  # there is room again: the end tries once more
    assert (tmp_path / "ckpt" / "step-0000000001.safetensors").exists()


def test_a_file_being_written_before_the_request_does_not_answer_it(request_file: Path) -> None:
    wishes = Wishes({REQUEST: str(request_file)})
    begun = wishes.heard
    touch(request_file)
    wishes.look(1.0)
    wishes.answer(begun, 3)
    assert not answer(request_file)
    wishes.answer(wishes.heard, 4)
    assert answer(request_file) == "4\n"


def test_the_runs_own_figure_is_used_and_a_day_is_assumed_without_one(tmp_path: Path) -> None:
    sessions = Sessions(str(tmp_path / "sessions.json"), 0.0)
    assert sessions.gap_s({"LEASE_GAP_S": "1234"}) == 1234.0
    for odd in ({}, {"LEASE_GAP_S": "soon"}, {"LEASE_GAP_S": "0"}, {"LEASE_GAP_S": "nan"}, {"LEASE_GAP_S": "inf"}):
        assert sessions.gap_s(odd) == QUIET_GAP_S
