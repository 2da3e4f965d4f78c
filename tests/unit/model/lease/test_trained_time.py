"""What a box says of its work is checked before it is believed."""

from __future__ import annotations

import pytest

from leasehold.model.lease.trained_time import checked_work


def test_an_allocation_may_be_larger_than_any_duration() -> None:
    said = {"trained_s": 60.0, "core_s": 4e9, "card_s": 120.0, "training": True}
    assert checked_work(said) == said


@pytest.mark.parametrize("lie", [-1.0, float("nan"), float("inf"), True, "much", 1e30])
def test_a_figure_that_can_be_none_is_dropped(lie: object) -> None:
    assert checked_work({"trained_s": 60.0, "core_s": lie}) == {"trained_s": 60.0, "training": False}
