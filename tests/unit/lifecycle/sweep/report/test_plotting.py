"""What a sweep's picture shows."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from leasehold.errors import UserError
from leasehold.lifecycle.sweep.report.learning_curves import series_of
from leasehold.lifecycle.sweep.report.plotting import plot_of
from leasehold.lifecycle.sweep.report.table import group
from leasehold.model.job.cells import Scalar
from leasehold.model.run.sweep import CellRow, SweepPlot
from leasehold.shells.cli.charts.sweep_svg import spell_sweep
from leasehold.shells.cli.screens.sweep_bars import draw_bars
from leasehold.shells.cli.terminal import Look


def _row(lr: float, model: str, seed: int, loss: float) -> CellRow:
    params: dict[str, Scalar] = {"lr": lr, "model": model, "seed": seed}
    return CellRow(f"{lr}-{model}-{seed}", params, {"step": 9.0, "val_loss": loss}, "home")


ROWS = [_row(lr, model, seed, lr + seed) for lr in (0.1, 0.001) for model in ("a", "<b> & \x1b[31m") for seed in (0, 2)]


def _plot(metric: str = "", by: str = "", rows: list[CellRow] = ROWS) -> SweepPlot:
    return plot_of(rows, group(rows), metric, by, lambda cell, name: [(0.0, 2.0), (5.0, 1.0)] if "a" in cell else [])


def test_by_default_the_telling_metric_and_the_first_parameter_are_drawn() -> None:
    found = _plot()
    assert (found.metric, found.axis) == ("val_loss", "lr")
    assert [(x, mean, n) for x, mean, _, n in found.lines["model=a"]] == [(0.1, 1.1, 2), (0.001, 1.001, 2)]
    assert all(sd == pytest.approx(2**0.5) for _, _, sd, _ in found.lines["model=a"])


def test_another_parameter_can_stand_below_and_the_rest_makes_the_lines() -> None:
    assert list(_plot("val_loss:min", "model").lines) == ["lr=0.1", "lr=0.001"]


def test_what_does_not_differ_or_was_not_measured_is_refused_with_choices() -> None:
    with pytest.raises(UserError, match="'seed' does not differ") as axis:
        _plot(by="seed")
    assert "--by lr or --by model" in axis.value.hint
    with pytest.raises(UserError, match="no cell measured 'acc'") as metric:
        _plot("acc")
    assert "val_loss" in metric.value.hint
    with pytest.raises(UserError, match="none of 1 cells has numbers"):
        _plot(rows=[CellRow("a", {}, {}, "running")])


def test_the_picture_is_well_formed_for_any_parameter_names_and_says_n() -> None:
    text = spell_sweep("sweep-1", _plot())
    root = ElementTree.fromstring(text)
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("n=2") == 4
    assert "\x1b" not in text
    assert any("log scale" in (word or "") for word in words)
    assert any("4 cells" in (word or "") for word in words), "the courses that are home are drawn too"


def test_bars_on_the_terminal_say_mean_sd_and_n() -> None:
    lines = list(draw_bars(_plot(), Look(80, glyphs=False, colour=False)))
    assert any("1.1 ± 1.4 (n=2)".encode("ascii", "replace").decode() in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_course_is_read_from_jsonl_and_csv_over_whatever_counts_steps(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(
        '{"step": 1, "loss": 3}\n\n{"step": 5, "loss": "nan"}\n{"step": 9, "loss": 1}\n'
    )
    (tmp_path / "log.csv").write_text("epoch,acc\n1,0.5\n2,0.75\n")
    (tmp_path / "broken.jsonl").write_text('{"loss": 1}\n{"loss": 2}\n{no json')
    assert series_of(tmp_path, ["log.jsonl"], "loss") == [(1.0, 3.0), (9.0, 1.0)]
    assert series_of(tmp_path, ["log.csv"], "acc") == [(1.0, 0.5), (2.0, 0.75)]
    assert series_of(tmp_path, ["broken.jsonl"], "loss") == [(0.0, 1.0), (1.0, 2.0)]
    assert series_of(tmp_path, ["missing.csv", "log.jsonl"], "acc") == []
