"""Thousands of rented lives under faults and kills: nothing bills unseen, nothing unproven is destroyed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from .lives import Life

_SHM = Path("/dev/shm")
_FIRST = int(os.environ.get("LEASEHOLD_SEED", "1"))


def lives(count: int, first: int) -> Counter[str]:
    """Live this many lives; the first failure names its seed."""
    seen: Counter[str] = Counter()
    for seed in range(first, first + count):
        folder = Path(tempfile.mkdtemp(dir=_SHM if os.access(_SHM, os.W_OK) else None, prefix="lives-"))
        try:
            with pytest.MonkeyPatch.context() as patch:
                life = Life(seed, folder, patch)
                try:
                    life.live()
                except AssertionError as error:
                    raise AssertionError(f"life {seed}: {error}") from error
            seen += life.seen
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return seen


def test_lives_under_faults_leave_nothing_billing_unseen() -> None:
    seen = lives(40, _FIRST)
    assert seen["rented"] and seen["killed"] and seen["within 1 %"] >= seen["bills of quiet lives"] * 0.9


@pytest.mark.full
@pytest.mark.parametrize("part", range(8))
def test_two_thousand_lives_leave_nothing_billing_unseen(part: int) -> None:
    seen = lives(250, _FIRST + 1000 + 250 * part)
    print(dict(seen))
    assert seen["rented"] > 100 and seen["killed"] > 20
    assert seen["within 1 %"] >= seen["bills of quiet lives"] * 0.9
