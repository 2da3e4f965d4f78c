"""Which of several boxes has a cell."""

from __future__ import annotations

from leasehold.kit.run.run_state import RunState, fold, state_from
from leasehold.lifecycle.sweep.fleet.cell_owners import Claim, next_giving, owner, owners, sent_away


def _box(*events: dict[str, object]) -> RunState:
    return fold({"n": number + 1, "t": 1.0, **event} for number, event in enumerate(events))


def _with(cells: dict[str, int], state: str = "pending") -> RunState:
    begun = [{"k": "attempt_started", "cell": name} for name in cells] if state == "running" else []
    done = [{"k": "cell_finished", "cell": name} for name in cells] if state == "finished" else []
    return _box({"k": "run_opened", "cells": list(cells)}, {"k": "cells_given", "given": cells}, *begun, *done)


def test_the_box_that_was_given_a_cell_last_has_it() -> None:
    assert owners({"a": _with({"c": 5}, "running"), "b": _with({"c": 9})}) == {"c": "b"}


def test_a_finished_result_counts_before_a_later_giving() -> None:
    assert owners({"a": _with({"c": 5}, "finished"), "b": _with({"c": 9}, "running")}) == {"c": "a"}


def test_of_two_given_it_at_once_the_one_at_work_has_it_else_name_decides() -> None:
    assert owner([Claim("a", "pending", 5), Claim("b", "running", 5)]).place == "b"
    assert owner([Claim("b", "pending", 5), Claim("a", "pending", 5)]).place == "a"


def test_a_cell_on_its_way_out_is_no_longer_that_boxs() -> None:
    leaving = {"k": "cells_withdrawn", "cells": ["c"], "to": "b"}
    opened = {"k": "run_opened", "cells": ["c"]}
    assert owners({"a": _box(opened, {"k": "attempt_started", "cell": "c"}, leaving)}) == {}


def test_where_a_cell_was_sent_is_told_until_some_box_has_it() -> None:
    sender = _box({"k": "run_opened", "cells": ["c", "d"]}, {"k": "cells_released", "cells": ["c"], "to": "b3"})
    assert sent_away({"b1": sender}) == {"c": "b3"}
    assert sent_away({"b1": sender, "b3": _with({"c": 7})}) == {}


def test_a_giving_is_later_than_any_that_was_seen_whatever_the_clock_says() -> None:
    assert next_giving(["c", "new"], [_with({"c": 500})], now_unix=100.0) == {"c": 501, "new": 100}


def test_a_box_that_answers_nonsense_is_read_as_far_as_it_makes_sense() -> None:
    nonsense = {"cells": {"c": {"given": "soon", "state": 5, "attempt": 2}, "d": None}, "left": {"e": "f"}, "seq": "x"}
    run = state_from(nonsense)
    assert (run.cells["c"].given, run.cells["c"].state, run.cells["c"].attempt) == (0, "pending", 2)
    assert (sorted(run.cells), run.left, run.seq) == (["c", "d"], {}, 0)
