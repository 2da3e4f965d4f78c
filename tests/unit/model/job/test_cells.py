"""Sweeps: which cells a job file promises, what they are called, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.errors import UserError
from leasehold.lifecycle.project.job_yaml import parse_text, read_job
from leasehold.model.job.cells import Cell, DuplicateCell, check_injective, differing, name_cell, product, without
from leasehold.model.job.job import Job, job_from_dict

_BASE = "name: sweep\nrun: python train.py --lr {{lr}}\nartifacts: [metrics.json]\n"


def _job(cells: str, run: str = "python train.py") -> Job:
    return parse_text(f"name: sweep\nrun: {run}\nartifacts: [metrics.json]\ncells: {cells}\n", "lease.yaml")


def test_a_grid_is_multiplied_out_with_the_last_key_fastest() -> None:
    job = _job("{grid: {lr: [0.1, 0.01], model: [a, b]}}")
    assert [cell.name for cell in job.cells] == [
        "lr-0.1_model-a", "lr-0.1_model-b", "lr-0.01_model-a", "lr-0.01_model-b",
    ]  # fmt: skip


def test_zipped_parameters_walk_side_by_side_and_multiply_with_the_grid() -> None:
    job = _job("{grid: {m: [a, b]}, zip: {epochs: [5, 9], warmup: [1, 2]}}")
    assert [tuple(cell.params.values()) for cell in job.cells] == [
        ("a", 5, 1), ("a", 9, 2), ("b", 5, 1), ("b", 9, 2),
    ]  # fmt: skip


def test_an_excluded_combination_is_no_cell() -> None:
    job = _job("{grid: {lr: [1, 2], m: [a, b]}, exclude: [{lr: 2, m: b}]}")
    assert "lr-2_m-b" not in [cell.name for cell in job.cells]
    assert len(job.cells) == 3


def test_seeds_repeat_every_cell_and_keep_a_given_name() -> None:
    job = _job("{list: [{name: base, lr: 1}], seeds: [3, 7]}")
    assert [cell.name for cell in job.cells] == ["base_seed-3", "base_seed-7"]


def test_a_queue_file_reads_config_task_and_epochs(tmp_path: Path) -> None:
    (tmp_path / "queue.txt").write_text("# the plan\n\nconfigs/small.yaml seg\nconfigs/big.yaml det 50\n", "utf-8")
    (tmp_path / "lease.yaml").write_text(
        "name: q\nrun: sh go.sh {{config}}\nartifacts: [m]\ncells: {file: queue.txt}\n"
    )
    cells = read_job(tmp_path / "lease.yaml").cells
    assert [cell.name for cell in cells] == ["small-seg", "big-det"]
    assert dict(cells[1].params) == {"config": "configs/big.yaml", "task": "det", "epochs": 50}


def test_a_csv_file_keeps_text_that_only_looks_like_a_number(tmp_path: Path) -> None:
    (tmp_path / "cells.csv").write_text("name,lr,tag\none,0.1,007\ntwo,1e-4,x\n", "utf-8")
    (tmp_path / "lease.yaml").write_text("name: q\nrun: a\nartifacts: [m]\ncells: {file: cells.csv}\n")
    cells = read_job(tmp_path / "lease.yaml").cells
    assert [dict(cell.params) for cell in cells] == [{"lr": 0.1, "tag": "007"}, {"lr": "1e-4", "tag": "x"}]


def test_a_yaml_file_lists_cells(tmp_path: Path) -> None:
    (tmp_path / "cells.yaml").write_text("- {lr: 1}\n- {name: two, lr: 2}\n", "utf-8")
    (tmp_path / "lease.yaml").write_text("name: q\nrun: a\nartifacts: [m]\ncells: {file: cells.yaml}\n")
    assert [cell.name for cell in read_job(tmp_path / "lease.yaml").cells] == ["lr-1", "two"]


def test_parameters_are_placeholders_of_the_command() -> None:
    job = _job("{grid: {lr: [1]}}", run='python train.py --lr {{lr}} --tag "x {{lr}}"')
    assert job.run == 'python train.py --lr "${LEASE_PARAM_lr}" --tag "x ${LEASE_PARAM_lr}"'


def test_a_placeholder_that_no_cell_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError) as caught:
        _job("{grid: {rate: [1]}}", run="python train.py {{rte}}")
    assert "rate" in caught.value.hint


def test_cost_comes_from_the_named_parameter() -> None:
    job = _job("{list: [{name: a, epochs: 50}, {name: b, epochs: 20}], cost: epochs}")
    assert [cell.cost for cell in job.cells] == [50.0, 20.0]


def test_adding_a_cell_keeps_the_sweep_and_the_names_of_the_others() -> None:
    before, after = _job("{grid: {lr: [1, 2]}}"), _job("{grid: {lr: [1, 2, 3]}}")
    assert before.identity() == after.identity()
    assert [cell.name for cell in after.cells][:2] == [cell.name for cell in before.cells]


def test_a_sweep_and_a_plain_job_are_different_runs() -> None:
    plain = parse_text("name: sweep\nrun: python train.py\nartifacts: [metrics.json]\n", "lease.yaml")
    assert plain.identity() != _job("[{lr: 1}]").identity()


def test_a_job_with_cells_is_spelled_and_read_back_whole() -> None:
    job = _job("{grid: {lr: [0.1, yes]}, seeds: 2, at_once: 3}")
    assert job_from_dict(job.as_dict()) == job


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ("[]", "no cell"),
        ("5", "list of cells"),
        ("{grd: {lr: [1]}}", "cells.grd"),
        ("{grid: {lr: 1}}", "list of values"),
        ("{grid: {lr: [1, 1]}}", "has a duplicate value"),
        ("{grid: {lr: [[1]]}}", "text or a number"),
        ("{grid: {l-r: [1]}}", "plain word"),
        ("{grid: {out: [1]}}", "meaning of its own"),
        ("{grid: {lr: [.nan]}}", "text or a number"),
        ("{zip: {a: [1, 2], b: [1]}}", "different length"),
        ("{grid: {a: [1]}, zip: {a: [1]}}", "is also in grid"),
        ("[{m: a/b}, {m: 'a:b'}]", "is the name of"),
        ("[{lr: 1}, {lr: 1}]", "is a duplicate"),
        ("[{name: Base, lr: 1}, {name: base, lr: 2}]", "is the name of"),
        ("[{name: ../up, lr: 1}]", "letters, digits"),
        ("{grid: {lr: [1, 2], bs: [1, 2]}, compare: [lr]}", "bs"),
        ("{grid: {lr: [1, 2]}, compare: [model]}", "no cell has"),
        ("{grid: {lr: [1]}, seeds: 0}", "seeds"),
        ("{grid: {lr: [1]}, seeds: [1, 1]}", "seeds"),
        ("{grid: {seed: [1]}, seeds: 2}", "already"),
        ("{grid: {lr: [1]}, cost: epochs}", "cells.cost"),
        ("{grid: {lr: [1]}, at_once: many}", "at_once"),
        ("{file: queue.txt}", "cannot be read"),
    ],
)  # fmt: skip
def test_bad_cells_are_refused_by_name(cells: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        _job(cells)
    assert says in caught.value.message


@pytest.mark.parametrize("line", ["only-one", "a b c d", "a b many"])
def test_a_bad_queue_line_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    (tmp_path / "queue.txt").write_text(f"a b\n{line}\n", "utf-8")
    (tmp_path / "lease.yaml").write_text("name: q\nrun: a\nartifacts: [m]\ncells: {file: queue.txt}\n")
    with pytest.raises(UserError) as caught:
        read_job(tmp_path / "lease.yaml")
    assert "line 2" in caught.value.message


def test_seeds_may_differ_under_a_comparison_lock() -> None:
    assert len(_job("{grid: {lr: [1, 2]}, seeds: 2, compare: [lr]}").cells) == 4


def test_keys_that_differ_are_shown_with_their_values() -> None:
    cells = [Cell("a", {"lr": 1, "bs": 8}), Cell("b", {"lr": 2, "bs": 8}), Cell("c", {"bs": 8})]
    assert differing(cells) == {"lr": [1, 2, None]}


_VALUE = st.one_of(st.text(max_size=6), st.integers(-5, 5), st.booleans())
_ROW = st.dictionaries(st.sampled_from("abc"), _VALUE, min_size=1, max_size=3)


@settings(deadline=None)
@given(st.lists(_ROW, max_size=6))
def test_names_are_injective_or_refused(rows: list[dict[str, str]]) -> None:
    cells = [Cell(name_cell(row), row) for row in rows]
    try:
        kept = check_injective(cells)
    except DuplicateCell:
        assert len({cell.name.lower() for cell in cells}) < len(cells)
    else:
        assert len({cell.name for cell in kept}) == len(rows)


@settings(deadline=None)
@given(_ROW)
def test_a_long_name_is_cut_and_still_tells_cells_apart(row: dict[str, str]) -> None:
    long = {**row, "z": "x" * 200}
    assert len(name_cell(long)) <= 80
    assert name_cell(long) != name_cell({**long, "z": "x" * 199 + "y"})


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from("ab"), st.lists(st.integers(), unique=True, min_size=1, max_size=4)))
def test_the_product_has_every_combination_once(grid: dict[str, list[int]]) -> None:
    rows = product(grid, {})  # type: ignore[arg-type]
    size = 1
    for values in grid.values():
        size *= len(values)
    assert len({tuple(row.items()) for row in rows}) == (size if grid else 0)
    assert without(rows, rows) == []


@pytest.mark.parametrize("flag", ["--no-requeue", "--array=0-3", "--signal=TERM@5", "-x node7"])
def test_an_sbatch_flag_that_resuming_rests_on_is_refused(flag: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_text(f"name: s\nrun: a\nartifacts: [m]\nslurm: {{flags: ['{flag}']}}\n", "lease.yaml")
    assert "slurm.flags" in caught.value.message
