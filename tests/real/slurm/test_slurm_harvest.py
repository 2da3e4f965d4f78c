"""Finished cells of an array come home while others of it still run on the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import Front, front
from tests.support.slurm_bed import SlurmCluster
from tests.support.sweeps import results, running, said_by, standing, until, write_sweep

pytestmark = pytest.mark.slurm


@pytest.fixture
def person(tmp_path: Path, slurm: SlurmCluster) -> Iterator[Front]:
    """Give somebody on a login node of the cluster, with its box in the book."""
    with front(tmp_path / "person", slurm.environ) as someone:
        root = tmp_path / "shared fs"
        done = someone.lease("box", "add", "cluster", "local", "--platform", "slurm", "--root", str(root))
        assert done.code == 0, done.said
        yield someone


def test_a_finished_cell_is_home_while_another_task_of_its_array_runs(person: Front, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    write_sweep(person, [{"name": "quick", "n": 0}, {"name": "slow", "n": 1, "gate": str(gate)}])
    with running(person, "run", "--on", "cluster", "--bring-after", "0s") as home:
        until(lambda: sorted(results(person)) == ["quick"], "the finished cell is home")
        assert standing(person)["slow"]["word"] == "running"
        gate.touch()
        assert home.wait(60) == 0, said_by(home)
    assert sorted(results(person)) == ["quick", "slow"]
    first, last = (event["receipt"]["cells"] for event in person.events("receipt_written"))
    assert (first, sorted(last)) == (["quick"], ["quick", "slow"])
