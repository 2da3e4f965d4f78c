"""What the audit counts for a cell is no less than what a cell that does nothing really takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leasehold.gates.start.audit import inode_need
from leasehold.lifecycle.project.job_yaml import read_job
from tests.support.front import Front, front
from tests.support.lives import eventually
from tests.support.slurm_bed import SlurmCluster
from tests.support.sweeps import write_sweep

_CELLS = 4


def _taken(root: Path) -> int:
    found = {os.lstat(os.path.join(at, name)).st_ino for at, dirs, files in os.walk(root) for name in (*dirs, *files)}
    return len(found)


def _sweep(person: Front, cells: int, *on: str) -> None:
    write_sweep(person, [{"name": f"c{n}", "n": n} for n in range(cells)])
    done = person.lease("run", *on)
    assert done.code == 0, done.said
    assert eventually(lambda: not person.leftovers()), "whoever still writes there is counted by chance"


def test_a_run_and_each_of_its_cells_fit_in_what_is_counted(tmp_path: Path) -> None:
    with front(tmp_path / "one") as one, front(tmp_path / "more") as more:
        _sweep(one, 1)
        _sweep(more, 1 + _CELLS)
        need = inode_need(read_job(one.project / "lease.yaml"), 1, code_inodes=1)
        assert _taken(one.box_root) <= need.total
        assert _taken(more.box_root) - _taken(one.box_root) <= _CELLS * need.a_cell


@pytest.mark.slurm
def test_each_cell_of_a_cluster_fits_in_what_is_counted(tmp_path: Path, slurm: SlurmCluster) -> None:
    taken = []
    for cells in (1, 1 + _CELLS):
        with front(tmp_path / str(cells), slurm.environ) as person:
            root = tmp_path / f"root {cells}"
            added = person.lease("box", "add", "cluster", "local", "--platform", "slurm", "--root", str(root))
            assert added.code == 0, added.said
            _sweep(person, cells, "--on", "cluster")
            need = inode_need(read_job(person.project / "lease.yaml"), 1, code_inodes=1)
            taken.append(_taken(root))
    assert taken[0] <= need.total
    assert taken[1] - taken[0] <= _CELLS * need.a_cell
