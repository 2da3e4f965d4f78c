"""Room for the last words: given up bit by bit on a disk that is really full, by bytes and by inodes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

from leasehold.caretaker.attempt import keeper
from leasehold.caretaker.run import disk_reserve
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json
from tests.support.front import Tmpfs

SOURCES = str(Path(__file__).resolve().parents[4] / "src")
FILLED = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from leasehold.caretaker.run import disk_reserve
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import write_json
from leasehold.kit.files.journal import Journal, read_from
folder = RunFolder(sys.argv[2])
os.makedirs(folder.path)
journal = Journal(folder.journal)
journal.append("run_opened", cells=[])
write_json(folder.status, {"state": "running"})
made = disk_reserve.keep(folder)
refused = 0
try:
    for number in range(100000):
        with open(os.path.join(folder.path, "filler-%d" % number), "wb", buffering=0) as file:
            file.write(b"x" * int(sys.argv[3]))
except OSError as error:
    refused = error.errno
last = {"why": "x" * 3000}
for number in range(4):
    disk_reserve.with_room(folder, lambda: journal.append("word", **last) and None)
    disk_reserve.with_room(folder, lambda: write_json(folder.status, dict(last, state="failed")))
state = json.load(open(folder.status))["state"]
words = len(read_from(folder.journal, 0)[0]) - 1
print(json.dumps({"made": made, "errno": refused, "state": state, "words": words}))
"""


def filled(place: Path, options: str, each_bytes: int) -> Dict[str, Any]:
    place.mkdir()
    words = [sys.executable, "-c", FILLED, SOURCES, str(place / "active" / "toy-1"), str(each_bytes)]
    done = subprocess.run([*Tmpfs(place, options).words(), *words], stdout=subprocess.PIPE, timeout=60, check=True)
    return dict(json.loads(done.stdout))


@pytest.mark.namespaces
@pytest.mark.parametrize(
    ("options", "each_bytes"), [("size=24m", 1 << 20), ("size=64m,nr_inodes=200", 0)], ids=["bytes", "inodes"]
)
def test_journal_and_status_are_written_on_a_disk_that_is_full(tmp_path: Path, options: str, each_bytes: int) -> None:
    seen = filled(tmp_path / "disk", options, each_bytes)
    assert seen == {"made": disk_reserve.FILES, "errno": errno.ENOSPC, "state": "failed", "words": 4}


def test_it_is_dropped_whole(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    assert disk_reserve.keep(folder) == disk_reserve.FILES
    assert len(os.listdir(folder.reserve)) == disk_reserve.FILES
    disk_reserve.drop(folder)
    assert not os.path.exists(folder.reserve)


def test_other_errors_are_not_answered_with_room(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    disk_reserve.keep(folder)

    def denied() -> None:
        raise PermissionError(errno.EACCES, "no")

    with pytest.raises(PermissionError):
        disk_reserve.with_room(folder, denied)
    assert len(os.listdir(folder.reserve)) == disk_reserve.FILES


def test_a_disk_that_stays_full_says_so_in_the_end(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    disk_reserve.keep(folder)

    def full() -> None:
        raise OSError(errno.ENOSPC, "no room")

    with pytest.raises(OSError, match="no room"):
        disk_reserve.with_room(folder, full)
    assert os.listdir(folder.reserve) == []


def test_the_last_status_overwrites_the_old_one_where_nothing_can_be_made(tmp_path: Path, monkeypatch: Any) -> None:
    folder = RunFolder(str(tmp_path))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "no inode is left")

    disk_reserve.write_status(folder, {"state": "running", "long": "x" * 500}, last=False)
    monkeypatch.setattr(disk_reserve, "write_json", full)
    with pytest.raises(OSError):
        disk_reserve.write_status(folder, {"state": "failed"}, last=False)
    assert (read_json(folder.status) or {})["state"] == "running", "one that is not the last is never half written"
    disk_reserve.write_status(folder, {"state": "failed"}, last=True)
    assert read_json(folder.status) == {"state": "failed"}


def test_an_exit_is_recorded_where_the_disk_filled_before_the_reserve(tmp_path: Path, monkeypatch: Any) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no inode is left")

    disk_reserve.make(str(tmp_path / keeper._ROOM), 4096)
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [4096]
    monkeypatch.setattr(disk_reserve, "with_room", full)
    keeper.write_exit(RunFolder(str(tmp_path)), str(tmp_path), {"code": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["exit.json"]
    keeper.write_exit(RunFolder(str(tmp_path)), str(tmp_path), {"code": 2})
    assert read_json(str(tmp_path / "exit.json")) == {"code": 1}, "the first one counts"
