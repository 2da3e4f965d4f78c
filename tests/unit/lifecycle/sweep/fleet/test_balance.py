"""Sharing out cells: nothing given twice, nothing forgotten, and no box left with the long ones."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.lifecycle.sweep.fleet.balance import Bench, measured, split, to_move

_COSTS = st.dictionaries(st.integers(0, 200).map("c{}".format), st.floats(0.1, 100), max_size=40)
_BOXES = st.lists(st.tuples(st.integers(1, 8), st.floats(0, 50)), min_size=1, max_size=6)


@settings(deadline=None)
@given(_COSTS, _BOXES)
def test_every_cell_is_given_to_exactly_one_box(costs: dict[str, float], boxes: list[tuple[int, float]]) -> None:
    benches = [Bench(f"b{n}", places, load) for n, (places, load) in enumerate(boxes)]
    given_cells = [cell for cells in split(costs, benches).values() for cell in cells]
    assert sorted(given_cells) == sorted(costs)


@settings(deadline=None)
@given(_COSTS, st.integers(1, 6))
def test_the_last_box_ends_within_four_thirds_of_the_best_possible(costs: dict[str, float], boxes: int) -> None:
    shares = split(costs, [Bench(f"b{n}") for n in range(boxes)])
    ends = max((sum(costs[cell] for cell in cells) for cells in shares.values()), default=0.0)
    ideal = max(sum(costs.values()) / boxes, max(costs.values(), default=0.0))
    assert ends <= ideal * (4 / 3 + 1e-9) + max(costs.values(), default=0.0) / 3


def test_a_box_with_more_cards_gets_more() -> None:
    shares = split({f"c{n}": 1.0 for n in range(9)}, [Bench("one"), Bench("eight", 8)])
    assert (len(shares["one"]), len(shares["eight"])) == (1, 8)


def test_a_box_that_has_work_gets_less() -> None:
    shares = split({f"c{n}": 1.0 for n in range(4)}, [Bench("busy", 1, 3.0), Bench("idle")])
    assert len(shares["idle"]) > len(shares["busy"])


def test_the_longest_come_first() -> None:
    assert split({"short": 1.0, "long": 9.0, "mid": 5.0}, [Bench("one")])["one"] == ["long", "mid", "short"]


def test_an_idle_box_takes_what_it_would_end_sooner_and_no_more() -> None:
    moved = to_move({"a": 4.0, "b": 4.0, "c": 4.0}, Bench("busy", 1, 14.0), Bench("idle"))
    assert len(moved) == 2
    assert to_move({"a": 4.0}, Bench("busy", 1, 4.0), Bench("idle")) == []


def test_measured_times_turn_costs_into_seconds() -> None:
    assert measured({"a": 1.0, "b": 3.0}, {"a": 60.0}) == {"a": 60.0, "b": 180.0}
    assert measured({"a": 1.0}, {}) == {"a": 1.0}


def test_a_cell_is_not_moved_where_its_way_takes_longer_than_it_gains() -> None:
    busy, idle = Bench("busy", load=8.0), Bench("idle")
    assert to_move({"c": 5.0}, busy, idle, on_the_way=2.0) == ["c"]
    assert to_move({"c": 5.0}, busy, idle, on_the_way=4.0) == []


def test_a_working_box_takes_a_cell_whose_move_is_shorter_than_its_work() -> None:
    busy, working = Bench("busy", load=9.0), Bench("working", load=3.0)
    assert to_move({"c": 5.0}, busy, working, on_the_way=3.0) == ["c"]
    assert to_move({"c": 5.0}, busy, working, on_the_way=4.5) == []
