"""What may hold a secret is its owner's alone from its first moment, on the box and at home."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import Front, front
from tests.support.lives import eventually

_OPEN_TO_ALL = ("sh", "-c", 'umask 000; exec "$@"', "sh")  # as some images have it
_TRAIN = """
import json, os, time
out = os.environ["LEASE_OUT"]
print("step 1/2 loss 0.5 and a secret", flush=True)
json.dump({"loss": 1}, open(os.path.join(out, "result.json"), "w"))
while not os.path.exists(GO):
    time.sleep(0.02)
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Somebody on a machine where new files are everybody's."""
    with front(tmp_path) as someone:
        someone.write("train.py", _TRAIN.replace("GO", repr(str(tmp_path / "go"))))
        yield someone
        (tmp_path / "go").touch()


def open_below(root: Path) -> list[str]:
    """List what others may read or write: a folder that is closed to them closes all that is in it."""
    found = []
    folders = [root]
    while folders:
        folder = folders.pop()
        for entry in os.scandir(folder):
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                continue
            if mode & 0o077:
                found.append(f"{os.path.relpath(entry.path, root)} {stat.filemode(mode)}")
            if stat.S_ISDIR(mode):
                folders.append(Path(entry.path))
    return found


def log_of(person: Front) -> list[Path]:
    return list(person.box_root.glob("active/*/cells/main/attempt-0001/log"))


def test_nobody_else_can_read_what_a_run_writes(person: Front, tmp_path: Path) -> None:
    person.job(setup="umask > made; ls -l made")
    started = person.lease("run", "--on", "local", "--detach", prefix=_OPEN_TO_ALL)
    assert started.code == 0, started.said
    assert not open_to_others(person.home)
    assert eventually(lambda: any(b"secret" in log.read_bytes() for log in log_of(person)))
    (made,) = person.box_root.glob("active/*/work/main/made")
    by_setup = f"{made.relative_to(person.box_root)} -rw-r--r--"
    assert open_below(person.box_root) == [by_setup], "its folder is closed"
    assert made.read_text().strip() == "0022", "what setup installs is for every user of the box"

    copied = person.lease("pull", "toy", prefix=_OPEN_TO_ALL)  # of the live run
    (tmp_path / "go").touch()
    assert eventually(lambda: "finished" in person.lease("status", "--refresh", "--json").out)
    pulled = person.lease("pull", "toy", prefix=_OPEN_TO_ALL)
    assert pulled.code == 0, (copied.said, pulled.said)
    assert open_below(person.box_root) == [by_setup]
    results = person.project / "lease-results"
    assert [name for name in ("export", "evacuated", "quarantine") if open_to_others(results / name)] == []
    (log,) = results.glob("export/*/evidence/main/attempt-0001/log")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.parametrize("words", [("status",), ("box", "list"), ("notify", "list"), ("plan",), ("signer", "list")])
def test_whatever_command_comes_first_the_home_is_closed(person: Front, words: tuple[str, ...]) -> None:
    person.job()
    person.lease(*words, prefix=_OPEN_TO_ALL)
    assert stat.S_IMODE(person.home.stat().st_mode) == 0o700


def test_a_home_of_an_older_version_is_closed_and_said(person: Front) -> None:
    person.job()
    assert person.lease("run", "--on", "local", "--detach").code == 0
    person.home.chmod(0o755)
    said = person.lease("status")
    assert "was open to others (drwxr-xr-x); it is now yours alone" in said.said
    assert stat.S_IMODE(person.home.stat().st_mode) == 0o700
    assert "open to others" not in person.lease("status").said


@pytest.mark.parametrize("mode, name", [(0o1777, ""), (0o2775, ""), (0o755, "lease.yaml"), (0o755, "code")])
def test_a_folder_that_may_be_somebody_elses_is_named_and_stays(person: Front, mode: int, name: str) -> None:
    person.home.mkdir()
    if name:
        (person.home / name).touch()
    person.home.chmod(mode)
    for _ in range(2):
        assert "is open to others" in person.lease("status").said
    assert stat.S_IMODE(person.home.stat().st_mode) == mode


def test_a_folder_of_an_older_version_is_closed(person: Front) -> None:
    active = person.box_root / "active"
    active.mkdir(parents=True)
    active.chmod(0o755)
    person.job()
    started = person.lease("run", "--on", "local", "--detach")
    assert started.code == 0, started.said
    assert not open_to_others(active)


def open_to_others(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & 0o077)
