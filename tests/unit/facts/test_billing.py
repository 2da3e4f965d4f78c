"""Which platforms are known to bill for compute, by what their profiles say."""

from __future__ import annotations

import pytest

from leasehold.facts import profiles


@pytest.mark.parametrize("platform", ["autodl", "runpod", "lambda", "vastai", "paperspace", "gpushare", "featurize"])
def test_a_rental_bills(platform: str) -> None:
    assert profiles.load(platform).bills


@pytest.mark.parametrize("platform", ["local", "generic-ssh", "slurm", "rehearsal"])
def test_what_nobody_is_known_to_bill_does_not(platform: str) -> None:
    assert not profiles.load(platform).bills
