"""The code that travels: by content, the same on every machine, and nothing that cannot or must not go."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from leasehold.errors import UserError
from leasehold.kit.files.code_tree import tree_hash
from leasehold.lifecycle.project import code_tree
from leasehold.lifecycle.project.code_tree import RESULTS, CodeTree, read_tree
from tests.conftest import ODD_NAMES


def fill(root: Path, *paths: str, content: str = "x") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)


def git(folder: Path, *words: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True, env=env)


def paths(tree: CodeTree) -> list[str]:
    return [entry["path"] for entry in tree.entries]


@pytest.fixture(params=["git", "plain"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A project folder, once under git and once not."""
    root = tmp_path / "project"
    root.mkdir()
    if request.param == "git":
        if shutil.which("git") is None:
            pytest.skip("no git here (Debian: apt-get install git)")
        git(root, "init", "-q")
    return root


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("no git here (Debian: apt-get install git)")
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q")
    return root


# ---------------------------------------------------------------- with and without git


def test_files_travel_by_content(folder):
    fill(folder, "train.py", "pkg/model.py")
    tree = read_tree(folder)
    digest = hashlib.sha256(b"x").hexdigest()
    assert tree.entries == (
        {"path": "pkg/model.py", "bytes": 1, "sha256": digest},
        {"path": "train.py", "bytes": 1, "sha256": digest},
    )
    assert tree.total_bytes == 2


def test_names_may_be_odd(folder):
    names = [f"{name}/{name}.py" for name in ODD_NAMES.values()]
    fill(folder, *names)
    assert sorted(paths(read_tree(folder))) == sorted(names)


def test_the_same_content_has_the_same_hash_anywhere(folder, tmp_path):
    fill(folder, "a.py", "b/c.py")
    os.symlink("a.py", folder / "link")
    twin = tmp_path / "elsewhere" / "twin"
    shutil.copytree(folder, twin, symlinks=True)
    os.utime(twin / "a.py", (1, 1))
    assert read_tree(twin).sha256 == read_tree(folder).sha256
    (twin / "a.py").write_text("y")
    assert read_tree(twin).sha256 != read_tree(folder).sha256


def test_an_executable_bit_travels(folder):
    fill(folder, "run.sh", "train.py")
    before = read_tree(folder).sha256
    (folder / "run.sh").chmod(0o755)
    tree = read_tree(folder)
    assert [entry["path"] for entry in tree.entries if entry.get("exec")] == ["run.sh"]
    assert tree.sha256 != before


def test_links_inside_travel_as_links(folder):
    fill(folder, "data/a.txt")
    os.symlink("data", folder / "folder-link")
    os.symlink("data/a.txt", folder / "file-link")
    os.symlink("nowhere", folder / "dangling")
    os.symlink("../folder-link", folder / "data" / "back")
    links = {entry["path"]: entry["link"] for entry in read_tree(folder).entries if "link" in entry}
    assert links == {
        "folder-link": "data",
        "file-link": "data/a.txt",
        "dangling": "nowhere",
        "data/back": "../folder-link",
    }


@pytest.mark.parametrize("target", ["/etc/passwd", "..", "../other", "sub/../../other"])
def test_a_link_that_leaves_the_project_is_refused_by_name(folder, target):
    fill(folder, "a.py")
    os.symlink(target, folder / "leaving")
    with pytest.raises(UserError) as caught:
        read_tree(folder)
    assert caught.value.code == "code.unsafe_path"
    assert "leaving" in caught.value.message
    assert caught.value.hint


def test_a_name_that_is_not_utf8_is_refused(folder):
    with open(os.path.join(os.fsencode(folder), b"caf\xe9.py"), "w") as file:
        file.write("x")
    with pytest.raises(UserError) as caught:
        read_tree(folder)
    assert caught.value.code == "code.unsafe_path"


def test_a_link_to_a_name_that_is_not_utf8_is_refused(folder):
    os.symlink(b"caf\xe9", os.path.join(os.fsencode(folder), b"link"))
    with pytest.raises(UserError) as caught:
        read_tree(folder)
    assert caught.value.code == "code.unsafe_path"


@pytest.mark.parametrize("skipped", [RESULTS, ".venv", "venv", "__pycache__", "node_modules", ".git", ".mypy_cache"])
def test_results_environments_and_caches_stay(folder, skipped):
    fill(folder, "train.py", f"{skipped}/x", f"pkg/{skipped}/deep/y", f"{skipped}-not/z")
    assert paths(read_tree(folder)) == sorted([f"{skipped}-not/z", "train.py"])


def test_results_that_came_home_do_not_change_the_code(folder):
    """Else the identical command would be another run."""
    fill(folder, "train.py")
    before = read_tree(folder).sha256
    fill(folder, f"{RESULTS}/export/toy-1/cells/main/best.pt")
    assert read_tree(folder).sha256 == before


def test_an_environment_that_is_a_link_stays_too(folder):
    """`.gitignore` says `.venv/`, which does not cover a link of that name."""
    fill(folder, "train.py")
    fill(folder, ".gitignore", content=".venv/\n")
    os.symlink("/opt/some/venv", folder / ".venv")
    assert paths(read_tree(folder)) == [".gitignore", "train.py"]


def test_fifos_and_sockets_stay(folder):
    fill(folder, "train.py")
    os.mkfifo(folder / "fifo")
    assert paths(read_tree(folder)) == ["train.py"]


def test_an_empty_file_travels(folder):
    fill(folder, "__init__.py", content="")
    assert read_tree(folder).entries[0]["bytes"] == 0


def test_too_much_code_is_refused_with_advice(folder, monkeypatch):
    monkeypatch.setattr(code_tree, "_MAX_CODE_BYTES", 100)
    fill(folder, "data.bin", content="x" * 101)
    with pytest.raises(UserError) as caught:
        read_tree(folder)
    assert caught.value.code == "code.too_big"
    assert ".gitignore" in caught.value.hint


def test_a_file_that_cannot_be_read_is_refused_by_name(folder, monkeypatch):
    fill(folder, "secret.py")

    def refuse(path, *rest, **options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(code_tree, "open", refuse, raising=False)
    with pytest.raises(UserError) as caught:
        read_tree(folder)
    assert "secret.py" in caught.value.message


def test_what_is_sent_is_what_was_hashed(folder):
    fill(folder, "a.py", content="x" * 600_000)
    fill(folder, "b/c.py", "empty", content="")
    (folder / "a.py").chmod(0o755)
    os.symlink("a.py", folder / "link")
    tree = read_tree(folder)
    assert tree_hash(received(tree)) == tree.sha256


def received(tree: CodeTree) -> list[dict[str, object]]:
    """Hash what would travel of each file."""
    entries: list[dict[str, object]] = []
    for entry in tree.entries:
        if "link" in entry:
            entries.append(dict(entry))
            continue
        content = b"".join(tree.read(entry))
        entries.append({**entry, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()})
    return entries


# ---------------------------------------------------------------- git alone


def test_git_leaves_ignored_files_and_takes_untracked_ones(repository):
    fill(repository, "tracked.py", "untracked.py", "data/big.bin", "run.log", "pkg/local.log")
    fill(repository, ".gitignore", content="data/\n*.log\n")
    git(repository, "add", "tracked.py", ".gitignore")
    git(repository, "commit", "-qm", "x")
    assert paths(read_tree(repository)) == [".gitignore", "tracked.py", "untracked.py"]


def test_git_takes_files_as_they_stand_not_as_committed(repository):
    fill(repository, "train.py", content="old")
    git(repository, "add", "train.py")
    git(repository, "commit", "-qm", "x")
    fill(repository, "train.py", content="newer")
    assert read_tree(repository).entries[0]["bytes"] == 5


def test_a_tracked_file_that_was_deleted_stays_away(repository):
    fill(repository, "a.py", "b.py")
    git(repository, "add", ".")
    (repository / "b.py").unlink()
    assert paths(read_tree(repository)) == ["a.py"]


def test_tracked_results_stay(repository):
    fill(repository, "a.py", f"{RESULTS}/x")
    git(repository, "add", "-f", ".")
    assert paths(read_tree(repository)) == ["a.py"]


def test_a_project_below_the_repository_takes_only_its_own(repository):
    fill(repository, "outer.py", "jobs/toy/train.py", "jobs/toy/data.bin")
    fill(repository, ".gitignore", content="*.bin\n")
    assert paths(read_tree(repository / "jobs" / "toy")) == ["train.py"]


def test_a_project_in_a_folder_that_git_ignores_travels_all_the_same(repository):
    fill(repository, "scratch/toy/train.py")
    fill(repository, ".gitignore", content="scratch/\n")
    assert paths(read_tree(repository / "scratch" / "toy")) == ["train.py"]


def test_a_file_in_conflict_is_taken_once(repository):
    fill(repository, "a.py", content="base")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "base")
    git(repository, "checkout", "-qb", "other")
    fill(repository, "a.py", content="other")
    git(repository, "commit", "-qam", "other")
    git(repository, "checkout", "-q", "-")
    fill(repository, "a.py", content="ours")
    git(repository, "commit", "-qam", "ours")
    with pytest.raises(subprocess.CalledProcessError):
        git(repository, "merge", "other")
    assert paths(read_tree(repository)) == ["a.py"]


def test_without_git_installed_the_folder_is_walked(repository, monkeypatch):
    fill(repository, "a.py")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert paths(read_tree(repository)) == ["a.py"]


def test_with_a_git_that_may_not_be_started_the_folder_is_walked(repository, tmp_path, monkeypatch):
    fill(repository, "a.py")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "git").write_text("not a program")
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    assert paths(read_tree(repository)) == ["a.py"]
