"""Which other folders of ours a box finds on its machine."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.caretaker.requests.machine_identity import closed_places, note_root, other_roots

_NOBODY = 65534


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


@contextlib.contextmanager
def ordinary_user() -> Iterator[None]:
    """Root may look everywhere: be somebody else."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_user_whose_folder_is_closed_keeps_no_box_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as place:  # pytest's own folder is closed to others itself
        homes = Path(os.path.realpath(place))
        homes.chmod(0o755)
        mine = make_root(homes / "alice" / ".leasehold")
        make_root(homes / "bob" / ".leasehold")
        seen = make_root(homes / "carol" / ".leasehold")
        monkeypatch.setenv("HOME", str(homes / "alice"))
        note_root(str(homes / "bob" / "noted"))
        (homes / "alice" / ".leasehold-roots").chmod(0o755)
        closed = (homes / "bob", homes / "carol" / ".leasehold")
        for folder in closed:
            folder.chmod(0)
        try:
            with ordinary_user():
                found = [root for root in other_roots(mine, [str(homes / "bob" / "x")]) if root.startswith(place)]
                assert found == [str(homes / "bob" / "noted"), seen]
                assert str(homes / "bob") in closed_places()
                assert str(homes / "carol") not in closed_places()
        finally:
            for folder in closed:
                folder.chmod(0o755)
