"""What is ours inside a project stays at home, and is said once where it would have travelled."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from leasehold.errors import UserError
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.project.code_tree import CodeTree, read_tree
from leasehold.lifecycle.project.excluded import own_places, say_home_stays


@pytest.fixture(params=["git", "plain"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A project with a home and results inside, once under git and once not."""
    root = tmp_path / "project"
    for path in ("train.py", "state/ledger.sqlite", "state/boxes/local/plan.json", "state-of-the-art.py", "out/a.json"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")
    if request.param == "git":
        if shutil.which("git") is None:
            pytest.skip("no git here (Debian: apt-get install git)")
        subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def _read(project: Path, home: Home) -> CodeTree:
    return read_tree(project, "lease.yaml", own_places(home, project, project / "out"))


def _paths(tree: CodeTree) -> list[str]:
    return [str(entry["path"]) for entry in tree.entries]


def test_a_home_and_results_inside_the_project_do_not_travel(project: Path) -> None:
    tree = _read(project, Home(project / "state"))
    assert _paths(tree) == ["state-of-the-art.py", "train.py"]


def test_what_our_commands_write_there_does_not_make_it_another_run(project: Path) -> None:
    home = Home(project / "state")
    before = _read(project, home).sha256
    (project / "state" / "ledger.sqlite").write_text("more")
    assert _read(project, home).sha256 == before


def test_a_home_that_is_named_through_a_link_is_known_for_what_it_is(project: Path) -> None:
    other = project.parent / "other"
    other.symlink_to(project)
    assert _paths(_read(project, Home(other / "state"))) == ["state-of-the-art.py", "train.py"]


def test_it_is_said_until_it_is_ignored(project: Path) -> None:
    home = Home(project / "state")
    assert "(state/); it stays here" in _stays(home, _read(project, home))
    (project / ".leaseignore").write_text("state/\n")
    assert _stays(home, _read(project, home)) == ""


def test_a_home_elsewhere_is_not_spoken_of(project: Path, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    tree = _read(project, home)
    assert "state/ledger.sqlite" in _paths(tree)
    assert _stays(home, tree) == ""


@pytest.mark.parametrize("project", ["git"], indirect=True)
def test_a_home_that_git_tracks_stays_too_and_how_to_untrack_it_is_said(project: Path) -> None:
    subprocess.run(["git", "-C", str(project), "add", "-A"], check=True)
    home = Home(project / "state")
    tree = _read(project, home)
    assert _paths(tree) == ["state-of-the-art.py", "train.py"]
    assert "Git tracks 2 files of it" in _stays(home, tree)
    assert "git rm -r --cached state/" in _stays(home, tree)


def test_a_home_that_is_the_project_is_refused(project: Path) -> None:
    with pytest.raises(UserError) as caught:
        _read(project, Home(project))
    assert caught.value.code == "home.is_project"


def _stays(home: Home, tree: CodeTree) -> str:
    return say_home_stays(home, tree.folder, tree.left_out)
