"""The gate on a screen: many cells that say the same take one line, and what stands in the way comes last."""

from __future__ import annotations

from leasehold.shells.cli.screens.teardown_screen import gate_lines


def _said(outcome: str, what: str, hint: str = "") -> dict[str, str]:
    return {"outcome": outcome, "what": what, "hint": hint}


def test_cells_that_say_the_same_are_one_line() -> None:
    home = [_said("passed", f"s-1/c{n}: home, hash-equal, loads (receipt)") for n in range(1000)]
    assert list(gate_lines(home)) == [
        "  ok  s-1: 1,000 cells (c0, c1, c2, c3, c4, …): home, hash-equal, loads (receipt)"
    ]


def test_what_stands_in_the_way_comes_last_and_names_the_command_once() -> None:
    owed = [
        _said("refused", f"s-1/c{n}: no receipt and no waiver", f"lease pull s-1   (or: lease waive s-1 c{n})")
        for n in range(2)
    ]
    assert list(gate_lines([*owed, _said("passed", "s-1/c7: given up by a person (waiver)")])) == [
        "  ok  s-1/c7: given up by a person (waiver)",
        "  NO  s-1: 2 cells (c0, c1): no receipt and no waiver   -> lease pull s-1   (or: lease waive s-1 CELL)",
    ]


def test_one_cell_keeps_its_own_command() -> None:
    owed = _said("refused", "s-1/c0: no receipt and no waiver", "lease waive s-1 c0")
    assert list(gate_lines([owed])) == ["  NO  s-1/c0: no receipt and no waiver   -> lease waive s-1 c0"]


def test_what_is_not_known_is_marked_so_and_not_as_a_no() -> None:
    what = "the box cannot be reached (nothing listens at a (root@h:22)), so what is on it is unknown"
    assert list(gate_lines([_said("unknown", what)])) == [f"  ?   {what}"]


def test_runs_are_kept_apart() -> None:
    home = [_said("passed", f"{run}/main: home, hash-equal, loads (receipt)") for run in ("a-1", "b-1")]
    assert len(list(gate_lines(home))) == 2
