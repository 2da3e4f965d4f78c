"""Pictures of curves: on terminals of any width, as SVG and as a table."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET

import pytest

from leasehold.model.run.curve import Curve, Point
from leasehold.shells.cli.charts.braille import Span, draw, segments, summary
from leasehold.shells.cli.charts.curves_svg import spell_svg
from leasehold.shells.cli.charts.svg import ticks
from leasehold.shells.cli.commands.plot import spell_csv
from leasehold.shells.cli.term_text import display_width
from leasehold.shells.cli.terminal import Look

SVG = "{http://www.w3.org/2000/svg}"


def curve(*values: float | None, panel: str = "loss", name: str = "", every_s: float = 5.0) -> Curve:
    points: tuple[Point, ...] = tuple((1000.0 + every_s * place, value) for place, value in enumerate(values))
    return Curve(panel, name or panel, "", points, 100.0 if panel == "gpu" else None)


def test_a_falling_line_goes_from_the_upper_left_to_the_lower_right() -> None:
    lines = draw([curve(*[10.0 - place for place in range(11)])], Look(60, 5, False, False))
    rows = [line[10:] for line in lines[1:6]]
    assert rows[0].startswith("*") and rows[-1].endswith("*") and len(rows[-1]) == 50
    assert [line[:9].strip() for line in lines[1:6]] == ["10", "", "5", "", "0"]
    assert lines[0] == "loss: last 0, 0 to 10"


@pytest.mark.parametrize("columns", [1, 30, 47, 80, 200])
@pytest.mark.parametrize("glyphs", [True, False])
def test_no_line_is_wider_than_the_terminal(columns: int, glyphs: bool) -> None:
    curves = [
        curve(1.0, 2.0, None, 5.0),
        curve(3.0, 4.0, panel="gpu", name="card 0"),
        curve(panel="gpu", name="card 1"),
    ]
    for line in draw(curves, Look(columns, 6, glyphs, False)):
        assert display_width(line) <= max(30, columns)
        assert glyphs or line.isascii()


def test_colours_come_only_when_wanted_and_share_a_panel() -> None:
    cards = [curve(50.0, 60.0, panel="gpu", name=f"card {place}") for place in range(2)]
    plain, coloured = draw(cards, Look(60, 4, True, False)), draw(cards, Look(60, 4, True, True))
    assert "\x1b" not in "".join(plain)
    assert "\x1b[36m" in "".join(coloured) and "\x1b[33m" in "".join(coloured)
    assert len(coloured) < len(plain)  # without colours each card has a frame of its own


def test_one_point_and_no_change_can_be_drawn() -> None:
    assert draw([curve(3.0)], Look(60, 4, True, False))
    assert draw([curve(0.0, 0.0, 0.0)], Look(60, 4, True, False))
    assert draw([curve(None, None)], Look(60, 4, True, False))[0] == "loss: last not a number"


def test_a_long_silence_breaks_the_line() -> None:
    points = (*((float(at), 1.0) for at in range(0, 50, 5)), *((float(at), 1.0) for at in range(500, 550, 5)))
    assert [len(piece) for piece in segments(Curve("x", "x", "", points))] == [10, 10]


def test_readings_that_are_old_and_far_apart_are_one_line() -> None:
    coarse = [(float(at), 1.0) for at in range(0, 2 * 86400, 600)]
    fine = [(float(at), 1.0) for at in range(2 * 86400, 2 * 86400 + 86400, 60)]
    finest = [(float(at), 1.0) for at in range(3 * 86400, 3 * 86400 + 3600, 5)]
    assert len(list(segments(Curve("x", "x", "", tuple(coarse + fine + finest))))) == 1


def test_what_is_no_number_breaks_the_line_and_is_said() -> None:
    broken = curve(1.0, 2.0, None, None)
    assert [len(piece) for piece in segments(broken)] == [2]
    assert summary(broken) == "last not a number, 1 to 2"


def test_the_picture_is_well_formed_whatever_the_names_are() -> None:
    curves = [curve(1.0, 2.0, name='<b>&"x'), curve(None, None, panel="gpu"), curve(5.0, panel="mem")]
    root = ET.fromstring(spell_svg("run <&>", curves))
    paths = [path.get("d") or "" for path in root.iter(f"{SVG}path")]
    assert root.tag == f"{SVG}svg" and len(paths) == 3
    assert paths[0].startswith("M70.0") and paths[1] == ""
    assert any("<b>" in "".join(text.itertext()) for text in root.iter(f"{SVG}text"))


def test_ticks_are_round_and_inside() -> None:
    assert ticks(Span(0.0, 100.0), 4) == [0.0, 50.0, 100.0]
    assert ticks(Span(0.13, 0.92), 4) == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert ticks(Span(3.0, 3.0), 4) == [3.0]


def test_the_table_has_a_row_for_each_moment_and_empty_unknown_cells() -> None:
    curves = [curve(1.0, None, 3.0), Curve("gpu", "card 0", "%", ((1005.0, 97.0),))]
    rows = list(csv.reader(io.StringIO(spell_csv(curves))))
    assert rows[0] == ["unix", "time", "loss", "gpu/card 0 [%]"]
    assert [row[2:] for row in rows[1:]] == [["1", ""], ["", "97"], ["3", ""]]
