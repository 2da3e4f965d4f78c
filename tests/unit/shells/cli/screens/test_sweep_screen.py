"""What `lease sweep status` draws."""

from __future__ import annotations

from collections.abc import Callable

from leasehold.lifecycle.sweep.report.eta import paces, stragglers
from leasehold.model.job.cells import Cell, Params, name_cell, product
from leasehold.model.run.sweep import Account, Part, Standing, Word
from leasehold.shells.cli.screens.sweep_grid import as_grid
from leasehold.shells.cli.screens.sweep_screen import draw_standing
from leasehold.shells.cli.terminal import Look

PLAIN = Look(80, glyphs=True, colour=False)
STATES = {Word.HOME: "finished", Word.RUNNING: "running", Word.WAITING: "pending", Word.FAILED: "failed"}


def _standing(rows: list[Params], word: Callable[[int], Word], ran_s: float = 10.0) -> Standing:
    cells = tuple(Cell(name_cell(row), row) for row in rows)
    accounts = tuple(Account(cell.name, word(place), "s-1-b1", "gpu1") for place, cell in enumerate(cells))
    seen = {
        account.cell: {"state": STATES[account.word], "started_unix": 1000.0, "ended_unix": 1100.0}
        for account in accounts
    }
    part = Part("s-1-b1", "gpu1", tuple(seen), seen, {}, now_unix=1000.0 + ran_s)
    return Standing("s-1", cells, (part,), accounts)


def _screen(found: Standing, look: Look = PLAIN) -> list[str]:
    return list(draw_standing(found, stragglers(found), paces(found), look))


def test_two_parameters_make_rows_and_columns_with_seeds_side_by_side() -> None:
    rows = product({"lr": [0.1, 0.01, 0.001], "model": ["small", "big"], "seed": [0, 1]}, {})
    found = _standing(rows, lambda place: (Word.HOME, Word.RUNNING)[place % 2])
    screen = _screen(found)
    assert [line.split() for line in screen[3:7]] == [
        ["lr"],
        ["model", "0.1", "0.01", "0.001"],
        ["small", "●▶", "●▶", "●▶"],
        ["big", "●▶", "●▶", "●▶"],
    ]
    assert screen[1] == "● 6 home   ▶ 6 running"


def test_a_running_cell_past_one_and_a_half_times_its_like_is_marked() -> None:
    rows = product({"lr": [1, 2, 3, 4]}, {})
    found = _standing(rows, lambda place: Word.RUNNING if place == 3 else Word.HOME, ran_s=151.0)
    screen = "\n".join(_screen(found))
    assert "late: runs for 2 min 31 s, its like took 1 min 40 s: lr-4 on gpu1" in screen
    assert "▷" in screen
    in_time = _standing(rows, lambda place: Word.RUNNING if place == 3 else Word.HOME, ran_s=149.0)
    assert not stragglers(in_time)


def test_a_cell_of_twice_the_cost_may_take_twice_as_long() -> None:
    found = _standing(product({"lr": [1, 2, 3, 4]}, {}), lambda place: Word.RUNNING if place == 3 else Word.HOME, 250.0)
    roster = (*found.roster[:3], Cell(found.roster[3].name, found.roster[3].params, 2.0))
    assert not stragglers(Standing(found.sweep, roster, found.parts, found.accounts))


def test_a_box_says_what_is_left_of_it() -> None:
    found = _standing(
        product({"lr": [1, 2, 3, 4]}, {}), lambda place: (Word.HOME, Word.RUNNING, Word.WAITING)[place % 3]
    )
    (box,) = paces(found)
    assert (box.done, box.running, box.waiting, box.left_s) == (2, ("lr-2",), 1, 190.0)


def test_thousands_of_cells_fit_eighty_columns_and_a_page() -> None:
    rows = product({"lr": list(range(25)), "model": [f"m{n}" for n in range(12)], "data": ["x", "y"]}, {})
    words = (Word.HOME, Word.WAITING, Word.FAILED, Word.RUNNING)
    seeded: list[Params] = [{**row, "seed": seed} for row in rows for seed in range(5)]
    screen = _screen(_standing(seeded, lambda place: words[place * 7 % 11 % 4]))
    assert max(map(len, screen)) <= 80
    assert len(screen) < 60


def test_cells_without_common_parameters_are_rows_most_urgent_first() -> None:
    found = _standing([{"a": 1}, {"b": 2}], lambda place: (Word.HOME, Word.FAILED)[place])
    assert as_grid(found.roster) is None
    assert [line.split()[:2] for line in _screen(found)[3:5]] == [["✗", "b-2"], ["●", "a-1"]]


def test_states_are_told_apart_without_colours_and_without_unicode() -> None:
    found = _standing(product({"lr": [1, 2, 3]}, {}), lambda place: (Word.HOME, Word.FAILED, Word.WAITING)[place])
    screen = _screen(found, Look(80, glyphs=False, colour=False))
    assert screen[1] == "# 1 home   . 1 waiting   X 1 failed"
    assert all(line.isascii() for line in screen)
