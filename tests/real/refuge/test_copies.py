"""Checkpoints leave the box while it trains: whole, newest first, pruned, and again after any process is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.refuge.bed import Bed
from tests.support.front import front


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    with front(tmp_path / "me") as person:
        yield Bed(person)


def test_new_checkpoints_are_copied_while_training_goes_on(bed: Bed) -> None:
    bed.launch()
    copied = bed.event("refuge_copied", 3)
    assert copied["place"] == str(bed.tier) and copied["step"] >= 2
    kept = bed.newest()
    assert kept is not None and kept.state.step is not None and kept.state.step >= copied["step"]
    assert bed.events("refuge_opened")[0]["places"] == [str(bed.tier)]
    bed.event("refuge_pruned")
    bed.stop()
    last = bed.newest()
    assert last is not None and bed.whole(last)
    assert last.state.step == max(int(one.name[5:11]) for one in (bed.folder / "out/main/ckpt").iterdir())
    states = bed.tier / f"leasehold/refuge/{bed.run}/cells/main/states"
    assert len([one for one in states.iterdir() if one.suffix == ".json"]) == 2
