"""State is a fold of events: of any prefix, in one go or in two, whatever newer writers added."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.kit.run import run_state
from leasehold.kit.run.run_state import RunState, fold
from leasehold.kit.run.run_states import TERMINAL
from tests.support.examples import MANY


@st.composite
def journals(draw):
    """Events in an order that a caretaker may write them."""
    cells = draw(st.lists(st.sampled_from(["main", "seed-1", "seed-2"]), min_size=1, unique=True))
    events = [{"k": "run_opened", "cells": cells, "plan_sha256": "p", "detach": "tmux", "pid": 3}]
    live = {}
    for _ in range(draw(st.integers(0, 15))):
        cell = draw(st.sampled_from(cells))
        attempt = live.get(cell, 0) + 1
        events += draw(st.sampled_from(steps(cell, attempt)))
        live[cell] = attempt
    ending = draw(st.sampled_from(["run_finished", "run_failed", "run_stopped", None]))
    if ending:
        events.append({"k": ending, "reason": "because"})
    return [dict(event, n=n, t=1000.0 + n) for n, event in enumerate(events, 1)]


def steps(cell, attempt):
    starting = {"k": "attempt_starting", "cell": cell, "attempt": attempt}
    started = {"k": "attempt_started", "cell": cell, "attempt": attempt, "pid": 7, "started": "99"}
    ended = {"k": "attempt_ended", "cell": cell, "attempt": attempt, "code": 1, "signal": None, "lost": False}
    lost = {"k": "attempt_ended", "cell": cell, "attempt": attempt, "lost": True}
    return [
        [starting, started, ended, {"k": "cell_pending", "cell": cell, "why": "again"}],
        [starting, started, dict(ended, code=0), {"k": "cell_finished", "cell": cell}],
        [starting, started, lost, {"k": "cell_failed", "cell": cell, "why": "lost"}],
        [starting, started],
        [{"k": "caretaker_started", "detach": "setsid", "pid": 4}],
        [{"k": "stop_requested", "id": "s1"}, {"k": "run_stopped", "reason": "asked"}, {"k": "resumed"}],
        [{"k": "strays_ended", "cell": cell, "pids": [1, 2]}],
        [{"k": "a_kind_of_next_year", "cell": cell, "cells": {"odd": []}}],
    ]


@MANY
@given(journals())
def test_every_prefix_folds(events):
    for cut in range(len(events) + 1):
        run = fold(events[:cut])
        assert run.seq == cut
        assert (run.state == "absent") == (cut == 0)
        assert run.terminal == (run.state in TERMINAL)
        run.as_dict()


@MANY
@given(journals())
def test_every_suffix_folds(events):
    """`lease stop` reads on from where the box said the journal stood, without what came before."""
    for cut in range(len(events) + 1):
        run = fold(events[cut:])
        assert run.seq == (len(events) if cut < len(events) else 0)
        if events[-1]["k"] in ("run_finished", "run_failed", "run_stopped") and cut < len(events):
            assert run.terminal


@MANY
@given(journals(), st.data())
def test_folding_in_two_goes_is_folding_in_one(events, data):
    cut = data.draw(st.integers(0, len(events)))
    assert fold(events[cut:], into=fold(events[:cut])).as_dict() == fold(events).as_dict()


@MANY
@given(journals(), st.data())
def test_unknown_kinds_only_move_the_sequence(events, data):
    where = data.draw(st.integers(0, len(events)))
    stranger = {"k": data.draw(st.text()), "cell": "main", "code": 0, "state": "finished"}
    if stranger["k"] in run_state._STEPS:
        return
    mixed = [*events[:where], stranger, *events[where:]]
    mixed = [dict(event, n=n) for n, event in enumerate(mixed, 1)]
    with_it, without = fold(mixed).as_dict(), fold(events).as_dict()
    for told in (with_it, without):
        del told["seq"], told["changed_unix"]
    assert with_it == without


@MANY
@given(journals())
def test_folding_does_not_change_the_events(events):
    before = copy.deepcopy(events)
    fold(events)
    assert events == before


def told(*kinds):
    return [dict(event, n=n, t=float(n)) for n, event in enumerate(kinds, 1)]


OPEN = {"k": "run_opened", "cells": ["main", "other"]}
STARTING = {"k": "attempt_starting", "cell": "main", "attempt": 1}
STARTED = {"k": "attempt_started", "cell": "main", "attempt": 1, "pid": 7, "started": "99"}
ENDED = {"k": "attempt_ended", "cell": "main", "attempt": 1, "code": 0}


def test_a_run_that_nobody_opened_is_absent():
    assert fold([]).state == "absent"
    assert not RunState().terminal


def test_a_cell_goes_from_pending_to_finished():
    states = []
    events = told(OPEN, STARTING, STARTED, ENDED, {"k": "cell_finished", "cell": "main"}, {"k": "run_finished"})
    for cut in range(1, len(events) + 1):
        run = fold(events[:cut])
        states.append((run.state, run.cells["main"].state))
    assert states == [
        ("running", "pending"),
        ("running", "starting"),
        ("running", "running"),
        ("running", "ended"),
        ("running", "finished"),
        ("finished", "finished"),
    ]


def test_an_attempt_that_vanished_has_no_code():
    cell = fold(told(OPEN, STARTING, STARTED, {"k": "attempt_ended", "cell": "main", "lost": True})).cells["main"]
    assert (cell.lost, cell.code, cell.signal) == (True, None, None)


def test_a_new_attempt_forgets_how_the_last_one_ended():
    ended = dict(ENDED, code=1, signal=9, lost=True)
    cell = fold(told(OPEN, STARTING, STARTED, ended, dict(STARTING, attempt=2))).cells["main"]
    assert (cell.attempt, cell.tries, cell.pid, cell.code, cell.signal, cell.lost) == (2, 2, 0, None, None, False)


def test_stopping_stops_what_was_not_done_and_resuming_starts_it_over():
    events = told(
        OPEN, {"k": "cell_finished", "cell": "other"}, {"k": "stop_requested", "id": "s"}, {"k": "run_stopped"}
    )
    run = fold(events)
    assert {name: cell.state for name, cell in run.cells.items()} == {"main": "stopped", "other": "finished"}
    assert run.stops == ["s"]
    run = fold([{"k": "resumed", "n": 5, "t": 5.0}], into=run)
    assert (run.state, run.reason) == ("running", "")
    assert {name: cell.state for name, cell in run.cells.items()} == {"main": "pending", "other": "finished"}


def test_resuming_passes_by_what_a_person_gave_up():
    run = fold(told(OPEN, {"k": "stop_requested", "id": "s"}, {"k": "run_stopped"}))
    run = fold([{"k": "resumed", "n": 4, "t": 4.0, "given_up": ["other"]}], into=run)
    assert {name: cell.state for name, cell in run.cells.items()} == {"main": "pending", "other": "failed"}
    assert run.cells["other"].why == "given up by a person"


@pytest.mark.parametrize("ending, state", [("run_finished", "finished"), ("run_failed", "failed")])
def test_a_reason_is_kept(ending, state):
    run = fold(told(OPEN, {"k": ending, "reason": "why"}))
    assert (run.state, run.reason, run.terminal) == (state, "why", True)


def test_a_refused_environment_is_remembered_until_the_next_attempt() -> None:
    def judged(**more):
        return {"n": 3, "k": "env_judged", "cell": "main", "attempt": 1, "outcome": "refused", **more}

    bad = [{"outcome": "refused", "what": "torch was 2"}, {"outcome": "passed", "what": "fine"}]
    run = fold([judged(findings=bad)])
    assert (run.cells["main"].judged, run.cells["main"].refused) == (1, "torch was 2")
    assert fold([judged(findings=bad, skipped=True)]).cells["main"].refused == ""
    assert fold([{"n": 4, "k": "attempt_starting", "cell": "main", "attempt": 2}], into=run).cells["main"].refused == ""
    for odd in (None, "x", [None, "y", {}]):  # a box may send anything
        assert fold([judged(findings=odd)]).cells["main"].refused == ""


@pytest.mark.parametrize("ending", [{"k": "cell_failed", "cell": "main"}, {"k": "run_stopped"}])
def test_a_cell_that_has_failed_or_was_stopped_waits_for_nobody(ending: dict) -> None:
    run = fold(told(OPEN, {"k": "occupied", "cell": "main", "why": "pid 7 writes"}))
    assert run.cells["main"].occupied == "pid 7 writes"
    assert fold([dict(ending, n=3)], into=run).cells["main"].occupied == ""
