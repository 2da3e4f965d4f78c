"""Ending zombies: only those shown, only after the exact phrase; what a box says is checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.errors import BoxError, Refusal
from leasehold.lifecycle.care import gpu
from leasehold.lifecycle.home.home import Home
from leasehold.model.run.note import silent
from leasehold.platforms.engines.caretaker.engine import CaretakerEngine

SURVEY = json.loads((Path(__file__).parents[2] / "gates" / "fixtures" / "h200_surveys.json").read_text())


class FakeWire:
    """A wire that answers one survey and keeps what was asked besides."""

    def __init__(self, survey: Any) -> None:
        self.survey = survey
        self.asked: list[dict[str, Any]] = []
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def objects(self, op: str, **args: Any) -> Iterator[dict[str, Any]]:
        yield {"sample": 1, "of": 5}
        yield self.survey

    def ask(self, op: str, **args: Any) -> dict[str, Any]:
        self.asked.append({"op": op, **args})
        return {"results": [{"pid": target["pid"], "did": "ended", "why": "by SIGTERM"} for target in args["targets"]]}


class FakeBox:
    """A box whose engine speaks over this wire."""

    def __init__(self, wire: Any) -> None:
        self.wire = wire

    def connect(self) -> CaretakerEngine:
        return CaretakerEngine(self.wire)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def box(monkeypatch: pytest.MonkeyPatch, survey: Any) -> FakeWire:
    wire = FakeWire(survey)
    monkeypatch.setattr(gpu, "box_called", lambda home, name: FakeBox(wire))
    return wire


def test_the_phrase_names_every_pid_and_the_box_hears_their_start_times(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = box(monkeypatch, SURVEY["orphaned"])
    questions: list[str] = []

    def ask(question: str) -> str:
        questions.append(question)
        return "kill 572"

    _, done = gpu.end_zombies(home, "gpu1", ask, silent)
    assert "kill 572" in questions[0]
    assert wire.asked[0]["targets"] == [{"pid": 572, "started": "6802"}]
    assert done[0]["did"] == "ended" and wire.closed
    assert [event.data["box"] for event in home.ledger.events(kind="zombies_ended")] == ["gpu1"]


@pytest.mark.parametrize("answer", ["", "yes", "kill 57", "kill 572 573"])
def test_another_answer_ends_nothing(home: Home, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    wire = box(monkeypatch, SURVEY["orphaned"])
    with pytest.raises(Refusal, match="nothing was ended"):
        gpu.end_zombies(home, "gpu1", lambda question: answer, silent)
    assert wire.asked == []


def test_where_there_is_none_nobody_is_asked(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = box(monkeypatch, SURVEY["working"])
    assert gpu.end_zombies(home, "gpu1", lambda question: pytest.fail("asked"), silent)[1] == []
    assert wire.asked == []


@pytest.mark.parametrize("change", [{"holders": [{}]}, {"cards": None}, {"listed": [[1]]}, {"kernel": 3}])
def test_a_survey_that_is_none_is_the_boxs_fault(
    home: Home, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    box(monkeypatch, {**SURVEY["working"], **change})
    with pytest.raises(BoxError) as caught:
        gpu.survey(home, "gpu1", silent)
    assert caught.value.code == "gpu.strange_answer"
