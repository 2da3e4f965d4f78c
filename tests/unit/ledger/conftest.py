"""What the ledger tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leasehold.ledger.store import Ledger
from leasehold.model.run.receipt import Approval, ApprovalRequest, Strength


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Give a fresh ledger whose clock counts 1, 2, 3 …"""
    ticks = iter(range(1, 10**9))
    book = Ledger(tmp_path / "ledger.sqlite", clock=lambda: float(next(ticks)))
    yield book
    book.close()


@pytest.fixture
def plan_run(ledger: Ledger) -> Callable[..., str]:
    """Record a planned run."""

    def plan(run: str, lease: str = "box-1", name: str = "toy") -> str:
        ledger.append(
            "run_planned", lease=lease, run=run, plan={"cells": ["main"]}, name=name, box="ssh:box", project="/p",
            results="/r",
        )  # fmt: skip
        return run

    return plan


def approval(nonce: str = "n1", lease: str = "box-1", verb: str = "terminate") -> Approval:
    """Spell a yes."""
    request = ApprovalRequest(verb, lease, "e" * 64, nonce, 1000)
    return Approval(request, Strength.TYPED, "me", 1.0)
