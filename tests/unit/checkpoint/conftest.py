"""A training in this process: a dict that counts, saved by a Checkpointer that says what it does into a list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leasehold.checkpoint import Checkpointer

Train = Callable[..., list[str]]


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Train until a step and return what was said; every step is saved and on the disk before the next begins."""
    monkeypatch.delenv("LEASE_OUT", raising=False)

    def until(steps: int, state: dict[str, Any] | None = None, metrics: Any = None, **options: Any) -> list[str]:
        said: list[str] = []
        state = {"count": 0} if state is None else state
        with Checkpointer(str(tmp_path / "ckpt"), every_steps=10**9, say=said.append, **options) as ckpt:
            for step in range(ckpt.restore(state=state).step, steps):
                state["count"] += 1
                ckpt.step(step, metrics=metrics(step) if metrics else None)
                ckpt.save()
        return said

    return until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where `train` saves."""
    return tmp_path / "ckpt"
