"""Waive: salvage first, then a person's exact words; nothing else gives results up."""

from __future__ import annotations

import json

import pytest

from leasehold.errors import Refusal, UserError
from leasehold.lifecycle.ending import waive as stage
from leasehold.lifecycle.home.home import Home
from tests.unit.lifecycle.conftest import Scene

PHRASE = "give up main of toy-1"


@pytest.fixture
def failed(new_scene, monkeypatch) -> Scene:
    """A run that failed and left something behind."""
    scene = new_scene()
    scene.run.end("failed")
    scene.write({"half/epoch-1.bin": b"half", "notes.txt": b"n"})
    monkeypatch.setattr(stage, "box_of", lambda home, lease: scene.box)
    return scene


def give_up(scene, answer=PHRASE, cell="main"):
    home = Home(scene.folder / "home")
    try:
        return stage.waive(home, scene.record, cell, lambda question: answer, scene.notes.append)
    finally:
        home.ledger.close()


def test_what_exists_is_salvaged_before_it_is_given_up(failed):
    place = give_up(failed)
    assert failed.record.waives("main")
    assert (place / "salvaged" / "half" / "epoch-1.bin").read_bytes() == b"half"
    assert (place / "salvaged" / "notes.txt").read_bytes() == b"n"
    waiver = json.loads((place / "waiver.json").read_bytes())
    assert (waiver["run"], waiver["cell"], waiver["salvaged"], waiver["reached_box"]) == ("toy-1", "main", 2, True)
    assert "metrics.json" in waiver["lost"]
    assert place in failed.quarantined()
    assert failed.box.open_wires == 0


@pytest.mark.parametrize("answer", ["", "y", "yes", "give up", "give up main", "Give up main of toy-1"])
def test_other_words_give_nothing_up_and_what_was_salvaged_stays(failed, answer):
    with pytest.raises(Refusal) as caught:
        give_up(failed, answer)
    assert caught.value.code == "waiver.not_given"
    assert not failed.record.waives("main")
    (place,) = failed.quarantined()
    assert (place / "salvaged" / "notes.txt").exists()
    assert not (place / "waiver.json").exists()


def test_what_is_lost_is_said_before_it_is_asked(failed):
    give_up(failed)
    kinds = [note.kind for note in failed.notes]
    assert kinds.index("salvaged") < kinds.index("waiver_asked")
    warning = next(note.text for note in failed.notes if note.kind == "waiver_asked")
    assert "metrics.json" in warning and "2 files were salvaged" in warning


def test_a_box_out_of_reach_is_said_in_the_waiver(failed):
    failed.box.reachable = False
    place = give_up(failed)
    assert json.loads((place / "waiver.json").read_bytes())["reached_box"] is False
    warning = next(note.text for note in failed.notes if note.kind == "waiver_asked")
    assert "NOTHING was salvaged" in warning


def test_a_waiver_notes_that_the_box_answered_without_the_run(failed):
    place = give_up(failed)
    assert json.loads((place / "waiver.json").read_bytes())["missed"] is False
    failed.box.machine.unmounted.add(str(failed.box.root))
    place = give_up(failed)
    waiver = json.loads((place / "waiver.json").read_bytes())
    assert (waiver["missed"], waiver["reached_box"], waiver["files"]) == (True, True, [])
    warning = [note.text for note in failed.notes if note.kind == "waiver_asked"][-1]
    assert "the box answers and has no such run, NOTHING was salvaged" in warning
    assert "this covers no file" in warning


def test_a_live_run_cannot_be_given_up(failed):
    failed.run.state = "running"
    with pytest.raises(Refusal) as caught:
        give_up(failed)
    assert caught.value.code == "run.alive"
    assert not failed.record.waives("main")


def test_what_is_home_need_not_be_given_up(scene, monkeypatch):
    monkeypatch.setattr(stage, "box_of", lambda home, lease: scene.box)
    scene.pull()
    with pytest.raises(UserError) as caught:
        give_up(scene)
    assert caught.value.code == "cell.home"


def test_an_unknown_cell_is_named_with_the_known_ones(failed):
    with pytest.raises(UserError) as caught:
        give_up(failed, cell="seed-9")
    assert caught.value.code == "cell.unknown"
    assert "main" in caught.value.hint
