"""A project's profile file cannot open the teardown gate: it may state facts more cautiously, never less."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.front import Front

HARMLESS: dict[str, Any] = {
    "traits": {"meter_stop_irreversible": "no"},
    "tiers": [{"name": "box disk", "survives": {"stop": "yes", "destroy": "yes", "balance_zero": "yes"}}],
    "verbs": [{"name": "terminate", "kind": "park", "ends": "stop", "reversible": True}],
}
FILE = ".leasehold/profiles/rehearsal.yaml"


@pytest.fixture
def rented(me: Front) -> Front:
    """Give a person with a finished run on a simulated box, nothing of it home."""
    done = me.lease("run", "--on", "local", "--rehearse", "--detach", "--skip-gate", "smoke", "--because", "a test")
    assert done.code == 0, done.said
    watched = me.lease("watch", "toy")
    assert "finished" in watched.out + watched.said
    return me


def box(me: Front) -> Path:
    return me.home / "boxes" / "rehearsal"


@pytest.mark.parametrize(
    "words", [pytest.param((), marks=pytest.mark.full), ("--facts-checked", "the console says so")]
)
def test_a_project_cannot_call_a_deleting_verb_harmless(rented: Front, words: tuple[str, ...]) -> None:
    rented.write(FILE, json.dumps(HARMLESS, indent=1))
    done = rented.lease("down", "toy", "--rehearsal", *words)
    assert done.code == 3, done.said
    assert "error[teardown.refused]" in done.said and "no receipt and no waiver" in done.said
    assert (box(rented) / "active").is_dir()
    assert not rented.events("intent_recorded")


def test_relaxed_facts_are_named_with_file_and_line_and_want_a_person(rented: Front) -> None:
    assert rented.lease("pull", "toy").code == 0
    path = rented.write(FILE, json.dumps(HARMLESS, indent=1))
    line = 1 + next(n for n, text in enumerate(path.read_text().splitlines()) if '"reversible"' in text)
    refused = rented.lease("down", "toy", "--rehearsal")
    told = f"{path}:{line}: verbs[terminate].reversible is true in this project's file; false is used"
    assert refused.code == 3 and told in refused.said, refused.said
    assert "--facts-checked" in refused.said
    assert (box(rented) / "active").is_dir()
    shown = rented.lease("platforms", "show", "rehearsal")
    assert told in shown.out and "cannot be undone" in shown.out
    plan = rented.lease("down", "toy", "--plan", "--facts-checked", "I read that file")
    assert "CANNOT be undone" in plan.said and "looked at: I read that file" in plan.said, plan.said
    done = rented.lease("down", "toy", "--rehearsal", "--facts-checked", "I read that file")
    assert done.code == 0, done.said
    assert not (box(rented) / "active").exists()


def test_a_project_cannot_take_the_landlord_out_of_the_rehearsal(rented: Front) -> None:
    rented.write(FILE, json.dumps({"extends": "local", "title": "a desk"}))
    done = rented.lease("down", "toy", "--rehearsal", "--facts-checked", "seen")
    assert done.code == 3 and "no receipt and no waiver" in done.said, done.said
    assert (box(rented) / "active").is_dir()


def test_your_own_file_may_relax_what_you_vouch_for(rented: Front) -> None:
    own = rented.folder / "config" / "profiles"
    own.mkdir(parents=True)
    (own / "rehearsal.yaml").write_text(json.dumps(HARMLESS))
    shown = rented.lease("platforms", "show", "rehearsal", LEASEHOLD_CONFIG=str(own.parent))
    assert "can be undone" in shown.out and "not used" not in shown.out


def test_a_project_cannot_make_a_park_of_a_deleting_verb_for_when_done(me: Front) -> None:
    me.write(FILE, json.dumps(HARMLESS))
    me.job(when_done="park")
    done = me.lease("run", "--on", "local", "--rehearse", "--detach")
    assert done.code == 3 and "no way to park a box" in done.said, done.said
    assert not me.events("attempt_started")
