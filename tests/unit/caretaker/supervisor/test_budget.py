"""The budget on the box: whole numbers, each threshold once, and nothing from a message that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

import pytest

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.supervisor.budget import Allowance, spell, told, units
from leasehold.kit.events.table import notice_text, notified

SENT: Dict[str, Any] = {
    "limit": "20", "currency": "USD", "spent": "9.5", "per_hour": "3.6", "at_limit": "stop", "as_of_unix": 1000.0,
}  # fmt: skip


def folder_with(tmp_path: Path, value: Any) -> RunFolder:
    folder = RunFolder.below(str(tmp_path), "toy-1")
    Path(folder.path).mkdir(parents=True)
    Path(folder.budget).write_text(json.dumps(value))
    return folder


@pytest.mark.parametrize("text, exact", [("20", 20 * 10**12), ("0.000000000001", 1), ("1.98", 198 * 10**10)])
def test_amounts_are_exact(text: str, exact: int) -> None:
    assert units(text) == exact


@pytest.mark.parametrize("text", ["", "-1", "1e3", "nan", "1.", ".5", None, "1 USD", "9" * 40])
def test_what_is_no_amount_is_refused(text: Any) -> None:
    with pytest.raises(ValueError):
        units(text)


def test_the_meter_goes_on_by_the_boxs_own_clock() -> None:
    sent = Allowance(SENT)
    assert spell(sent.spent(1000.0)) == "9.5000"
    assert spell(sent.spent(1000.0 + 3600)) == "13.1000"
    assert sent.spent(1.0) == sent.spent(1000.0), "a clock that went back takes nothing back"
    assert [sent.passed(1000.0 + s) for s in (0, 499, 500, 6499, 6500, 10500)] == [0, 0, 50, 50, 80, 100]


def test_what_home_never_sent_or_nobody_can_read_is_no_budget(tmp_path: Path) -> None:
    assert Allowance.read(RunFolder.below(str(tmp_path), "none")) is None
    for number, broken in enumerate([{}, {"limit": "x"}, {**SENT, "spent": -1}, {**SENT, "as_of_unix": None}]):
        assert Allowance.read(folder_with(tmp_path / str(number), broken)) is None


def test_a_threshold_is_told_once_and_a_new_limit_begins_anew() -> None:
    events = [{"k": "budget_warned", "percent": 50, "budget": "20USD"}, {"k": "run_opened"}]
    assert told(events, "20USD") == 50
    assert told(events, "40USD") == 0
    assert told([*events, {"k": "budget_reached", "percent": 100, "budget": "20USD"}], "20USD") == 100


@pytest.mark.parametrize("acts, says", [("stop", "stopping the run"), ("warn", "the run continues")])
def test_a_notice_says_what_happens_now(tmp_path: Path, acts: str, says: str) -> None:
    sent = Allowance.read(folder_with(tmp_path, {**SENT, "at_limit": acts}))
    assert sent is not None
    event = {"k": "budget_reached", **sent.facts(100, 20000.0)}
    sentence = notified(event)
    assert sentence is not None and sentence.topic == "budget"
    assert says in notice_text(event) and "of 20 USD" in notice_text(event)
