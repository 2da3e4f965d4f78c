"""A short loop of moves with random kills; `python -m bench.move_loop 200` is the long one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bench.move_loop import loop

pytestmark = pytest.mark.full


def test_no_work_is_lost_beyond_the_cadence_and_the_end_is_bit_equal(tmp_path: Path) -> None:
    killed = loop(tmp_path, 4, random.Random(7))
    assert sum(killed.values()) >= 4
