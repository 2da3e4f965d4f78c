"""Pauses grow with each failure in a row, and the last one stays. Runs under PyPy too."""

from __future__ import annotations

import pytest

from leasehold.kit.failure.back_off import LINK_S, pause_after


@pytest.mark.parametrize("failures, pause_s", [(0, 2.0), (1, 2.0), (2, 8.0), (3, 8.0), (99, 8.0)])
def test_the_pause_after_so_many_failures(failures: int, pause_s: float) -> None:
    assert pause_after(failures, (2.0, 8.0)) == pause_s


def test_a_silent_box_is_asked_at_least_once_a_minute() -> None:
    assert pause_after(10**6) == LINK_S[-1] == 60.0
