"""The table of a sweep: seeds joined, the best named with its direction, and the same numbers in every spelling."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.errors import UserError
from leasehold.lifecycle.sweep.report.metrics import metrics_of
from leasehold.lifecycle.sweep.report.parquet import write_parquet
from leasehold.lifecycle.sweep.report.table import best, columns, group, spelled
from leasehold.model.run.sweep import CellRow


def _row(cell: str, lr: float, seed: int, **metrics: float) -> CellRow:
    return CellRow(cell, {"lr": lr, "seed": seed}, metrics, "home")


ROWS = [
    _row("a0", 0.1, 0, loss=1.0, acc=0.5),
    _row("a1", 0.1, 1, loss=3.0, acc=0.7),
    _row("b0", 0.2, 0, loss=1.5),
    CellRow("c0", {"lr": 0.4, "seed": 0}, {}, "failed"),
]


def test_seeds_are_joined_as_mean_sd_and_n() -> None:
    first = group(ROWS)[0]
    assert (first.metrics["loss"].mean, first.metrics["loss"].n) == (2.0, 2)
    assert math.isclose(first.metrics["loss"].sd or 0, math.sqrt(2))


def test_one_seed_has_no_sd() -> None:
    assert str(group(ROWS)[1].metrics["loss"]) == "1.5"


def test_a_cell_without_numbers_is_no_setting() -> None:
    assert [one.cells for one in group(ROWS)] == [("a0", "a1"), ("b0",)]


def test_named_cells_without_seeds_stay_apart() -> None:
    rows = [CellRow(name, {}, {"loss": 1.0}, "home") for name in ("one", "two")]
    assert [one.cells for one in group(rows)] == [("one",), ("two",)]


def test_the_best_states_its_direction_and_that_it_was_guessed() -> None:
    by = {top.metric: top for top in best(group(ROWS), [])}
    assert (by["loss"].direction, by["loss"].guessed, dict(by["loss"].params)) == ("min", True, {"lr": 0.2})
    assert by["acc"].direction == "max"


def test_a_stated_direction_wins_over_the_name() -> None:
    (top,) = best(group(ROWS), ["loss:max"])
    assert (dict(top.params), top.guessed) == ({"lr": 0.1}, False)


def test_a_metric_whose_name_says_nothing_needs_a_direction() -> None:
    rows = [CellRow("a", {"lr": 1}, {"wobble": 2.0}, "home")]
    assert best(group(rows), []) == []
    with pytest.raises(UserError) as caught:
        best(group(rows), ["wobble"])
    assert "wobble:min" in caught.value.hint


def test_a_metric_that_nobody_measured_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserError) as caught:
        best(group(ROWS), ["f1"])
    assert "loss" in caught.value.hint


def test_a_metric_named_like_a_parameter_keeps_both() -> None:
    table = columns([CellRow("a", {"lr": 1}, {"lr": 0.5}, "home")])
    assert table["lr"] == [1]
    assert table["metric.lr"] == [0.5]


def test_csv_reads_back_and_lacks_nothing() -> None:
    rows = list(csv.DictReader(io.StringIO(spelled(columns(ROWS), "csv").decode())))
    assert [row["cell"] for row in rows] == ["a0", "a1", "b0", "c0"]
    assert rows[3]["loss"] == ""


def test_markdown_escapes_bars() -> None:
    text = spelled(columns([CellRow("a", {"m": "x|y"}, {}, "home")]), "markdown").decode()
    assert "x\\|y" in text


def test_metrics_come_from_json_jsonl_and_csv(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps({"val": {"loss": 1.5, "name": "x", "ok": True}, "n": 3}))
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n{"step": 2, "acc": 0.5}\n')
    (tmp_path / "t.csv").write_text("epoch,iou\n1,0.1\n2,0.9\n")
    found = metrics_of(tmp_path, ["m.json", "log.jsonl", "t.csv"])
    assert found == {"val.loss": 1.5, "n": 3.0, "step": 2.0, "acc": 0.5, "epoch": 2.0, "iou": 0.9}


@pytest.mark.parametrize("text", ["", "{", "[" * 5000, '{"a": NaN}', '{"a": 1e999}', "null", '"x"'])
def test_a_file_that_holds_no_numbers_gives_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.json").write_text(text)
    assert metrics_of(tmp_path, ["m.json", "absent.json"]) == {}


_VALUE = st.one_of(st.none(), st.integers(-(1 << 62), 1 << 62), st.floats(allow_nan=False), st.text(), st.booleans())


@settings(deadline=None)
@given(
    st.integers(0, 20).flatmap(lambda n: st.dictionaries(st.text(min_size=1), st.lists(_VALUE, min_size=n, max_size=n)))
)
def test_parquet_reads_back_in_pyarrow(table: dict[str, list[object]]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="no pyarrow here (the extra `parquet`)")
    read = parquet.read_table(io.BytesIO(write_parquet(table))).to_pydict()  # type: ignore[arg-type]
    for name, values in table.items():
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) == 1:
            assert read[name] == values
        assert [value is None for value in read[name]] == [value is None for value in values]


def test_parquet_without_pyarrow_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError) as caught:
        spelled(columns(ROWS), "parquet")
    assert caught.value.code == "sweep.no_pyarrow"
    assert "pip install 'leasehold[parquet]'" in caught.value.hint and "csv" in caught.value.hint
