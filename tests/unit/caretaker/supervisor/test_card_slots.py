"""Where cells run on a box."""

from __future__ import annotations

from typing import Any, Dict

from leasehold.caretaker.supervisor.card_slots import Places
from leasehold.kit.run.run_state import RunState, fold


def _run(*events: Dict[str, Any]) -> RunState:
    opened: Dict[str, Any] = {"k": "run_opened", "cells": ["a", "b"]}
    return fold(dict(event, n=number + 1, t=0.0) for number, event in enumerate([opened, *events]))


_STARTS: Dict[str, Any] = {"k": "attempt_starting", "cell": "a", "attempt": 1, "cards": "0"}
_ENDED = (_STARTS, {"k": "attempt_started", "cell": "a"}, {"k": "attempt_ended", "cell": "a", "code": 0})
_TRAINED = (*_ENDED, {"k": "stage_passed", "cell": "a", "attempt": 1, "stage": "train"})


def _places(**job: Any) -> Places:
    return Places({"job": dict(cells=[{"name": "a"}, {"name": "b"}], gpu={"count": 1}, **job)})


def test_a_cell_whose_results_are_only_read_leaves_its_place_to_the_next() -> None:
    assert not _places().has_place(_run(*_TRAINED).cells["a"])


def test_a_cell_still_to_be_judged_or_evaluated_keeps_its_place() -> None:
    assert _places().has_place(_run(*_ENDED).cells["a"])
    assert _places(evaluate="python eval.py").has_place(_run(*_TRAINED).cells["a"])


def test_a_working_cells_card_is_taken_and_a_read_cells_card_is_free() -> None:
    places = _places()
    places._groups = ["0", "1"]  # what the driver would name
    assert places.free(_run(*_ENDED)) == "1"
    assert places.free(_run(*_TRAINED)) == "0"
