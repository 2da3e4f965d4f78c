"""A training killed again and again has the loss curve of one that was left alone, bit for bit."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.unit.checkpoint.bed import program, run

STEPS = 50
TRAINERS = {"plain": ("plain",), "arrays": ("arrays",), "network": ("network", 0), "workers": ("network", 2)}


def spelled(kind: str, folder: Path, every: int) -> list[str]:
    name, *words = TRAINERS[kind]
    return program(name, folder, steps_of(kind), every, *words)


def steps_of(kind: str) -> int:
    """The quick ones take more steps, so that some are done while a file is being written."""
    return STEPS if kind in ("network", "workers") else 10 * STEPS


@pytest.mark.full
@pytest.mark.parametrize(("kind", "every"), [("plain", 1), ("plain", 7), ("arrays", 1), ("network", 1), ("workers", 7)])
def test_kills_at_random_steps_leave_the_loss_curve_as_it_was(tmp_path: Path, kind: str, every: int) -> None:
    whole = run(spelled(kind, tmp_path / "whole", every))
    assert whole.done, whole.said
    chance, seen, killed = random.Random(f"{kind}/{every}"), {}, 0
    place, kills = tmp_path / "killed", [chance.randint(every + 2, 20) for _ in range(4)]
    for after in [*kills, -1]:
        part = run(spelled(kind, place, every), kill_after=after, folder=place)
        killed += part.code == -signal.SIGKILL
        seen.update(part.losses)
        assert {step: whole.losses[step] for step in part.losses} == part.losses
    assert part.done, part.said
    assert seen == whole.losses
    assert killed


@pytest.mark.parametrize("kind", ["plain", "network"])
def test_a_terminated_training_saves_its_very_step_and_loses_nothing(tmp_path: Path, kind: str) -> None:
    first = run(spelled(kind, tmp_path / "ckpt", 10_000), kill_after=12, number=signal.SIGTERM)
    assert first.code == 143, first.said
    assert "asked to end; state of step" in first.said
    second = run(spelled(kind, tmp_path / "ckpt", 10_000))
    assert second.done, second.said
    assert not first.losses.keys() & second.losses.keys()
    assert first.losses.keys() | second.losses.keys() == set(range(steps_of(kind)))


def test_a_user_signal_saves_and_the_training_goes_on(tmp_path: Path) -> None:
    done = run(spelled("plain", tmp_path / "ckpt", 10_000), kill_after=10, number=signal.SIGUSR1)
    assert done.done
    assert done.said.count("checkpoint: saved step") == 2  # the one asked for, and the one at the end


def test_a_finished_training_started_again_does_nothing_twice(tmp_path: Path) -> None:
    run(spelled("plain", tmp_path / "ckpt", 7))
    again = run(spelled("plain", tmp_path / "ckpt", 7))
    assert again.done and not again.losses
    assert f"resumes at step {steps_of('plain')}" in again.said


def test_it_writes_below_the_runs_out_folder(tmp_path: Path) -> None:
    out = tmp_path / "out 中文 'x'"
    argv = spelled("plain", Path("ckpt"), 7)
    assert run(argv, LEASE_OUT=str(out)).done
    assert len(list((out / "ckpt").glob("step-*.safetensors"))) == 2
