"""Frameworks that save in their own way are given a safe place, a cadence and a way back; jax needs none of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.checkpoint.bed import program, run

STEPS = 30


@pytest.mark.full
@pytest.mark.parametrize("framework", ["accelerate", "lightning", "transformers", "jax"])
def test_a_training_that_was_ended_goes_on_bit_for_bit(tmp_path: Path, framework: str) -> None:
    name = f"with_{framework}"
    whole = run(program(name, tmp_path / "whole", STEPS, -9))
    assert whole.done, whole.said[-3000:]
    first = run(program(name, tmp_path / "ended", STEPS, 12))
    assert not first.done and 13 <= len(first.losses) < STEPS, first.said[-3000:]
    second = run(program(name, tmp_path / "ended", STEPS, -9))
    assert second.done, second.said[-3000:]
    assert "resumes at step 13" in second.said
    assert {**first.losses, **second.losses} == whole.losses


@pytest.mark.full
def test_a_damaged_folder_of_a_framework_falls_back(tmp_path: Path) -> None:
    argv = program("with_accelerate", tmp_path / "ended", STEPS, 12)
    run(argv)
    newest = max((tmp_path / "ended").glob("step-*.saved"))
    weights = max(newest.glob("*"), key=lambda path: path.stat().st_size)
    weights.write_bytes(weights.read_bytes()[:-1])
    again = run(program("with_accelerate", tmp_path / "ended", STEPS, -9))
    assert again.done
    assert "is damaged and was passed over" in again.said and "a fresh start" in again.said


@pytest.mark.full
def test_lightning_saves_every_so_many_steps_and_at_the_end(tmp_path: Path) -> None:
    ran = run(program("with_lightning", tmp_path / "ckpt", 10, -9, 4))
    assert ran.done, ran.said[-3000:]
    said = [line.split(",")[0] for line in ran.said.splitlines() if line.startswith("checkpoint: saved step")]
    assert said == [f"checkpoint: saved step {step}" for step in (4, 8, 10)]
    again = run(program("with_lightning", tmp_path / "ckpt", 10, -9, 4))
    assert "resumes at step 10" in again.said and "saved step" not in again.said
