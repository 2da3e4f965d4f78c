"""Where secrets of a cluster's run lie: in a home that nobody else can change, and else where the run lies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Tuple

import pytest

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.secrets_folder import NAME, find_place, make_place, settle
from leasehold.kit.files.atomic import write_json


@pytest.fixture
def site(tmp_path: Path) -> Tuple[Path, Path]:
    """A home folder, and a project's folder that a group may write to."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir(0o755)
    project.mkdir()
    project.chmod(0o2775)
    (project / "leasehold").mkdir(0o755)
    return home, project / "leasehold"


def test_a_home_outside_the_project_is_used_and_only_its_user_can_enter(site: Tuple[Path, Path]) -> None:
    home, root = site
    place = make_place(str(root), str(home))
    assert (place.path, place.private) == (str(home / NAME), True)
    assert (home / NAME).stat().st_mode & 0o777 == 0o700
    assert make_place(str(root), str(home)) == place, "a second launch finds it again"


def test_looking_writes_nothing(site: Tuple[Path, Path]) -> None:
    home, root = site
    assert find_place(str(root), str(home)).private
    assert list(home.iterdir()) == []


def test_a_root_in_the_home_needs_no_other_place(site: Tuple[Path, Path]) -> None:
    home, _ = site
    root = home / "leasehold"
    root.mkdir(0o755)
    assert make_place(str(root), str(home))[:2] == ("", True)
    assert list(home.iterdir()) == [root]


def test_a_root_that_is_a_link_out_of_the_home_is_not_in_it(site: Tuple[Path, Path]) -> None:
    home, root = site
    (home / "work").symlink_to(root)
    assert make_place(str(home / "work"), str(home)).path == str(home / NAME)


def test_a_root_in_a_folder_of_the_home_that_others_change_is_not_private(site: Tuple[Path, Path]) -> None:
    home, _ = site
    (home / "shared").mkdir()
    (home / "shared").chmod(0o770)
    (home / "shared" / "root").mkdir()
    assert make_place(str(home / "shared" / "root"), str(home)).path == str(home / NAME)


@pytest.mark.parametrize("mode", [0o775, 0o770, 0o777])
def test_a_home_that_others_may_change_is_not_used(site: Tuple[Path, Path], mode: int) -> None:
    home, root = site
    home.chmod(mode)
    place = make_place(str(root), str(home))
    assert (place.path, place.private) == ("", False)
    assert "others can write to %s (mode %04o)" % (home, mode) in place.why


def test_a_home_inside_the_shared_project_is_not_used(site: Tuple[Path, Path]) -> None:
    _, root = site
    home = root.parent / "me"
    home.mkdir(0o700)
    place = make_place(str(root), str(home))
    assert (place.path, place.private) == ("", False)
    assert "others can write to %s (mode 2775)" % root.parent in place.why


@pytest.mark.parametrize("home", ["", "~", "nowhere", "/nonexistent/home"])
def test_without_a_home_there_is_no_place(site: Tuple[Path, Path], home: str) -> None:
    place = make_place(str(site[1]), home)
    assert (place.path, place.private) == ("", False)
    assert "there is no home folder" in place.why


def test_a_folder_that_others_can_enter_already_is_not_used(site: Tuple[Path, Path]) -> None:
    home, root = site
    (home / NAME).mkdir()
    (home / NAME).chmod(0o750)
    for look in (find_place, make_place):
        place = look(str(root), str(home))
        assert (place.path, place.private) == ("", False)
        assert "others can enter %s (mode 0750)" % (home / NAME) in place.why


def test_a_link_in_its_stead_is_not_followed(site: Tuple[Path, Path]) -> None:
    home, root = site
    (home / NAME).symlink_to(root)
    assert "is not a folder" in make_place(str(root), str(home)).why


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_home_that_cannot_be_written_is_not_used(site: Tuple[Path, Path]) -> None:
    home, root = site
    home.chmod(0o500)
    place = make_place(str(root), str(home))
    assert (place.path, place.private) == ("", False)


def test_a_place_that_the_profile_names_is_taken(site: Tuple[Path, Path]) -> None:
    home, root = site
    platform, place = settle(str(root), str(home), {"credentials": "/private"})
    assert (platform, place.path) == ({"credentials": "/private"}, "/private")
    assert list(home.iterdir()) == []


def test_a_variable_that_only_tasks_have_is_no_place(site: Tuple[Path, Path]) -> None:
    home, root = site
    platform, place = settle(str(root), str(home), {"credentials": "$TMPDIR"})
    assert platform["credentials"] == place.path == str(home / NAME)


def test_the_run_reads_its_secrets_from_there(site: Tuple[Path, Path]) -> None:
    home, root = site
    folder = RunFolder.below(str(root), "toy-1")
    os.makedirs(folder.path)
    assert folder.secrets == str(root / "secrets" / "toy-1.json")
    platform, _ = settle(str(root), str(home), {"hook": "x"})
    write_json(folder.environment, platform)
    again = RunFolder.below(str(root), "toy-1")
    assert again.secrets.startswith(str(home / NAME) + "/")
    assert again.notify.startswith(str(home / NAME) + "/")
    assert again.platform()["hook"] == "x"
