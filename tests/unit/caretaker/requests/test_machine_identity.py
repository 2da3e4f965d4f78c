"""Which other folders of ours a box finds on its machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leasehold.caretaker.requests.machine_identity import note_root, other_roots


def make_root(place: Path) -> str:
    (place / "active").mkdir(parents=True)
    (place / "caretaker").mkdir()
    return os.path.realpath(place)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home" / "alice"
    place.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(place))
    return place


def test_another_user_s_roots_on_the_same_machine_are_found(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = make_root(home / ".leasehold")
    usual = make_root(home.parent / "bob" / ".leasehold")
    elsewhere = make_root(tmp_path / "data" / "runs")
    monkeypatch.setenv("HOME", str(home.parent / "bob"))
    note_root(elsewhere)
    monkeypatch.setenv("HOME", str(home))
    assert {usual, elsewhere} <= set(other_roots(mine, []))


def test_a_root_inside_the_root_is_found_without_a_note(home: Path) -> None:
    mine = make_root(home / ".leasehold")
    inner = make_root(home / ".leasehold" / "inner")
    assert inner in other_roots(mine, [])
    assert mine in other_roots(inner, [])


def test_a_root_that_lost_its_name_and_its_parcels_is_one_by_its_runs(home: Path, tmp_path: Path) -> None:
    mine = make_root(home / ".leasehold")
    bare = tmp_path / "bare"
    (bare / "active" / "toy-0123456789").mkdir(parents=True)
    assert os.path.realpath(bare) not in other_roots(mine, [str(bare)])
    (bare / "active" / "toy-0123456789" / "plan.json").write_text("garbage")
    assert os.path.realpath(bare) in other_roots(mine, [str(bare)])
