"""State is a fold of events: the same on both ends, in one go or bit by bit, whatever it does not know."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.kit.run.run_state import RunState, fold

Event = Dict[str, Any]


def numbered(*events: Event) -> List[Event]:
    return [{"n": n, "t": 1000.0 + n, **event} for n, event in enumerate(events, 1)]


OPENED = {"k": "run_opened", "cells": ["main"], "plan_sha256": "p", "detach": "tmux", "pid": 1}
FINISHES = [{"k": "attempt_ended", "cell": "main", "attempt": 1, "code": 0}, {"k": "cell_finished", "cell": "main"}]


def starts(attempt: int, pid: int = 7) -> List[Event]:
    return [
        {"k": "attempt_starting", "cell": "main", "attempt": attempt},
        {"k": "attempt_started", "cell": "main", "attempt": attempt, "pid": pid, "started": "s%d" % pid, "at": 5.5},
    ]


def ends(attempt: int, **how: Any) -> Event:
    return {"k": "attempt_ended", "cell": "main", "attempt": attempt, **how}


def test_nothing_is_known_of_a_run_without_events() -> None:
    run = fold([])
    assert (run.state, run.seq, run.cells, run.terminal) == ("absent", 0, {}, False)


def test_a_plain_life_ends_finished() -> None:
    run = fold(numbered(OPENED, *starts(1), *FINISHES, {"k": "run_finished"}))
    cell = run.cells["main"]
    assert (run.state, run.terminal, run.seq) == ("finished", True, 6)
    assert (cell.state, cell.attempt, cell.code, cell.signal, cell.lost) == ("finished", 1, 0, None, False)
    assert (run.plan_sha256, run.detach, run.opened_unix) == ("p", "tmux", 1001.0)


def test_a_running_attempt_has_its_identity_and_the_trainers_own_start() -> None:
    cell = fold(numbered(OPENED, *starts(1))).cells["main"]
    assert (cell.state, cell.pid, cell.started, cell.started_unix) == ("running", 7, "s7", 5.5)


def test_a_new_attempt_forgets_how_the_last_one_ended() -> None:
    events = [OPENED, *starts(1), ends(1, signal=9), {"k": "cell_pending", "cell": "main"}, *starts(2, pid=8)]
    cell = fold(numbered(*events)).cells["main"]
    assert (cell.state, cell.attempt, cell.tries) == ("running", 2, 2)
    assert (cell.pid, cell.code, cell.signal, cell.lost) == (8, None, None, False)


def test_a_vanished_attempt_is_lost_and_has_no_code() -> None:
    cell = fold(numbered(OPENED, *starts(1), ends(1, lost=True))).cells["main"]
    assert (cell.state, cell.code, cell.signal, cell.lost) == ("ended", None, None, True)


def test_a_failed_run_has_its_reason() -> None:
    failed = [{"k": "cell_failed", "cell": "main"}, {"k": "run_failed", "reason": "exited with code 17"}]
    run = fold(numbered(OPENED, *starts(1), ends(1, code=17), *failed))
    assert (run.state, run.reason, run.terminal, run.cells["main"].code) == ("failed", "exited with code 17", True, 17)


def test_a_person_who_resumes_gives_fresh_tries_but_no_attempt_twice() -> None:
    failed = [ends(1, code=1), {"k": "cell_failed", "cell": "main"}, {"k": "run_failed", "reason": "r"}]
    run = fold(numbered(OPENED, *starts(1), *failed, {"k": "resumed", "by": "me"}))
    cell = run.cells["main"]
    assert (run.state, run.reason, run.terminal) == ("running", "", False)
    assert (cell.state, cell.tries, cell.attempt) == ("pending", 0, 1)


def test_resuming_leaves_finished_cells_finished() -> None:
    opened = {**OPENED, "cells": ["done", "main"]}
    failed = [{"k": "cell_finished", "cell": "done"}, {"k": "cell_failed", "cell": "main"}, {"k": "run_failed"}]
    run = fold(numbered(opened, *failed, {"k": "resumed"}))
    assert {name: cell.state for name, cell in run.cells.items()} == {"done": "finished", "main": "pending"}


def test_a_stop_is_remembered_by_its_id_so_that_it_counts_once() -> None:
    run = fold(numbered(OPENED, *starts(1), {"k": "stop_requested", "id": "abc"}))
    assert (run.state, run.terminal, run.stops) == ("stopping", False, ["abc"])


def test_a_stopped_run_leaves_finished_cells_finished() -> None:
    opened = {**OPENED, "cells": ["done", "main"]}
    done = [{"k": "cell_finished", "cell": "done"}, {"k": "stop_requested", "id": "a"}]
    run = fold(numbered(opened, *done, {"k": "run_stopped", "reason": "asked"}))
    assert (run.state, run.terminal, run.reason) == ("stopped", True, "asked")
    assert {name: cell.state for name, cell in run.cells.items()} == {"done": "finished", "main": "stopped"}


def test_caretakers_after_the_first_are_counted() -> None:
    again = {"k": "caretaker_started", "pid": 2, "detach": ""}
    assert fold(numbered(OPENED, again, again)).restarts == 2


def test_unknown_kinds_only_advance_the_sequence() -> None:
    """A newer caretaker's journal stays readable."""
    known = fold(numbered(OPENED, *starts(1))).as_dict()
    newer = fold(numbered(OPENED, *starts(1), {"k": "from_the_future", "cell": "main"})).as_dict()
    assert newer.pop("seq") == known.pop("seq") + 1
    newer.pop("changed_unix"), known.pop("changed_unix")
    assert newer == known


@pytest.mark.parametrize("kind", ["attempt_started", "attempt_ended", "cell_finished", "run_opened", "stop_requested"])
def test_an_event_that_lacks_its_facts_is_survived(kind: str) -> None:
    assert fold([{"n": 1, "t": 1.0, "k": kind}]).seq == 1


KINDS = [
    "run_opened", "caretaker_started", "attempt_starting", "attempt_started", "attempt_ended", "cell_finished",
    "cell_failed", "cell_pending", "run_finished", "run_failed", "stop_requested", "run_stopped", "resumed", "other",
]  # fmt: skip
EVENTS = st.lists(
    st.builds(
        lambda kind, cell, attempt: {
            "k": kind,
            "cell": cell,
            "attempt": attempt,
            "pid": attempt,
            "started": "s",
            "id": "i",
            "cells": ["a"],
        },  # fmt: skip
        st.sampled_from(KINDS),
        st.sampled_from(["a", "b"]),
        st.integers(1, 3),
    ),
    max_size=30,
)


@given(events=EVENTS, cut=st.integers(0, 30))
def test_folding_bit_by_bit_gives_what_folding_at_once_gives(events: List[Event], cut: int) -> None:
    whole = numbered(*events)
    assert fold(whole[cut:], into=fold(whole[:cut])).as_dict() == fold(whole).as_dict()


@given(events=EVENTS)
def test_every_prefix_of_a_journal_can_be_folded_and_spelled(events: List[Event]) -> None:
    run = RunState()
    for event in numbered(*events):
        fold([event], into=run)
        assert set(run.as_dict()) == set(vars(run))
        assert run.terminal == (run.state in ("finished", "failed", "stopped"))
