"""What a task of an array reads: its own share of the plan, however many other cells there are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List

import pytest

from leasehold.caretaker.run.run_folder import CellFolder, RunFolder, folder_at
from leasehold.caretaker.slurm_queue.plan_slices import keep_share, share_of, write_shares
from leasehold.kit.files.atomic import write_json

CELLS = [{"name": "a", "params": {"lr": 1}}, {"name": "b", "params": {"lr": 2}}]


def _run(folder: Path, cells: List[Dict[str, Any]], names: List[str]) -> RunFolder:
    run = RunFolder(str(folder / "root" / "active" / "job-1"))
    os.makedirs(os.path.join(run.path, "slurm"))
    job: Dict[str, Any] = {"run": "true", **({"cells": cells} if cells else {})}
    write_json(run.plan, {"cells": names, "job": job, "patterns": ["x"], "environment": {"gap_s": 5}})
    return run


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return _run(tmp_path, CELLS, ["a", "b"])


def test_a_task_knows_its_cell_by_its_place(run: RunFolder) -> None:
    write_shares(run, 1, ["a", "b"], {})
    found = [share_of(run, 1, place) for place in (0, 1, 2, -1)]
    assert [share["cells"] if share else None for share in found] == [["a"], ["b"], None, None]


def test_a_share_has_its_own_cell_alone_and_all_that_cells_have_in_common(run: RunFolder) -> None:
    write_shares(run, 1, ["b"], {})
    share = share_of(run, 1, 0)
    assert share is not None
    assert share["job"] == {"run": "true", "cells": [CELLS[1]]}
    assert share["patterns"] == ["x"]


def test_cells_that_joined_later_have_shares_too(run: RunFolder) -> None:
    write_json(run.added, {"cells": [{"name": "c", "params": {"lr": 3}}]})
    write_shares(run, 2, ["c"], {})
    share = share_of(run, 2, 0)
    assert share is not None
    assert share["job"]["cells"] == [{"name": "c", "params": {"lr": 3}}]


def test_a_plain_job_is_an_array_of_one_without_parameters(tmp_path: Path) -> None:
    run = _run(tmp_path, [], ["main"])
    write_shares(run, 1, ["main"], {})
    share = share_of(run, 1, 0)
    assert share is not None
    assert share["cells"] == ["main"]
    assert "cells" not in share["job"]


def test_a_task_of_a_submission_that_is_not_there_has_no_share(run: RunFolder) -> None:
    assert share_of(run, 7, 0) is None


def test_whoever_works_for_a_cell_reads_its_share_as_its_plan(run: RunFolder) -> None:
    write_shares(run, 1, ["a", "b"], {})
    cell = CellFolder(run.path, "b")
    os.makedirs(cell.address)
    share = share_of(run, 1, 1)
    assert share is not None
    keep_share(cell, share)
    again = folder_at(cell.address)
    assert again.read_plan() == share
    assert again.platform() == {"gap_s": 5}
