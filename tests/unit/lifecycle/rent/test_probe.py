"""The overlay that a probe writes is read back as facts, and a person's own overlay is not touched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.ledger import rentals as book
from leasehold.lifecycle.rent.probe import _written
from leasehold.lifecycle.rentals.markets import profile_of

from .bed import Bed


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    bed = Bed(tmp_path)
    bed.market()
    bed.rent()
    bed.home = replace(bed.home, config=tmp_path / "config")
    bed.desk = replace(bed.desk, home=bed.home)
    return bed


def _write(bed: Bed, kept: bool) -> str:
    profile = profile_of(bed.home, "runpod")
    return _written(bed.desk, profile, book.rentals(bed.home.ledger)[0], {"volume disk": kept}).written


def test_what_was_seen_becomes_a_fact_of_the_platform(bed: Bed) -> None:
    assert _write(bed, kept=False)
    tier = bed.home.shelf().load("runpod").tier("volume disk")
    assert tier is not None
    assert (tier.survives_stop, tier.survives_destroy, tier.source.confidence) == ("no", "no", "own")


def test_an_overlay_of_a_person_is_not_overwritten(bed: Bed, tmp_path: Path) -> None:
    mine = tmp_path / "config" / "profiles" / "runpod.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("boot: 3min\n")
    assert _write(bed, kept=False) == ""
    assert mine.read_text() == "boot: 3min\n"
