"""Reconciliation: one word a cell, nothing counted as settled that is not, and a command for every gap."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.lifecycle.sweep.report.reconcile import reconcile
from leasehold.model.run.sweep import Account, Part, Word

FILE = {"path": "m.json", "bytes": 900, "sha256": "aa", "mtime_ns": 100 * 10**9}


def _one(seen: dict[str, Any] | None = None, files: list[dict[str, Any]] | None = None, **more: Any) -> Account:
    known = {} if seen is None else {"c": {"state": "finished", "started_unix": 50.0, "ended_unix": 90.0, **seen}}
    part = Part("run", "box", ("c",), known, {"c": files} if files is not None else {}, **more)
    return reconcile(["c"], [part], 60.0)[0]


@pytest.mark.parametrize(
    ("account", "word"),
    [
        (_one({}, [FILE]), Word.ON_BOX),
        (_one({}, [FILE], home=frozenset("c")), Word.HOME),
        (_one({}, [], waived=frozenset("c")), Word.WAIVED),
        (_one({}, []), Word.MISSING),
        (_one({}, [{**FILE, "bytes": 0}]), Word.EMPTY),
        (_one({}, [{**FILE, "mtime_ns": 10 * 10**9}]), Word.STALE),
        (_one({"state": "failed", "why": "CUDA out of memory"}), Word.FAILED),
        (_one({"state": "running"}), Word.RUNNING),
        (_one({"state": "pending", "waits": "Priority"}), Word.WAITING),
        (_one({"state": "stopped"}), Word.STOPPED),
        (_one(None, problem="no route to host"), Word.UNKNOWN),
    ],
)
def test_every_gap_has_its_word_and_the_command_that_mends_it(account: Account, word: Word) -> None:
    assert account.word is word
    assert account.settled == (word in (Word.HOME, Word.WAIVED))
    assert account.mend or account.settled


def test_a_promised_cell_that_no_box_has_is_missing() -> None:
    assert reconcile(["gone"], [])[0].word is Word.MISSING


def test_the_better_of_two_boxes_speaks_for_a_cell_that_was_moved() -> None:
    lost = Part("run-b1", "dead", ("c",), {}, {}, problem="no route")
    good = Part("run-b2", "live", ("c",), {}, {"c": [FILE]}, home=frozenset("c"))
    assert reconcile(["c"], [lost, good])[0].box == "live"


def test_a_fast_finish_is_remarked_and_shuts_nothing() -> None:
    account = _one({"ended_unix": 55.0}, [FILE], home=frozenset("c"))
    assert account.settled
    assert "5 s of the expected 60 s" in account.remarks[0]


def test_equal_results_of_two_cells_are_remarked() -> None:
    part = Part("run", "box", ("a", "b"), {}, {"a": [FILE], "b": [FILE]}, home=frozenset("ab"))
    remarks = [account.remarks for account in reconcile(["a", "b"], [part])]
    assert remarks[0] == ()
    assert "a" in remarks[1][0]


_STATES = st.sampled_from(["pending", "starting", "running", "ended", "finished", "failed", "stopped", "", "odd"])


@settings(deadline=None)
@given(_STATES, st.booleans(), st.booleans(), st.lists(st.integers(0, 3), max_size=3))
def test_only_a_receipt_or_a_waiver_settles(state: str, home: bool, waived: bool, sizes: list[int]) -> None:
    files = [{"path": f"f{place}", "bytes": size, "mtime_ns": 0} for place, size in enumerate(sizes)]
    part = Part(
        "run", "box", ("c",), {"c": {"state": state}}, {"c": files},
        home=frozenset("c") if home else frozenset(), waived=frozenset("c") if waived else frozenset(),
    )  # fmt: skip
    assert reconcile(["c"], [part])[0].settled == (home or waived)
