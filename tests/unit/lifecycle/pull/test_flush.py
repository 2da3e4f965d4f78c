"""What came is on the disk before anything is said of it; much of it is written back while the rest still comes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leasehold.lifecycle.pull import flush
from leasehold.lifecycle.pull.files.arrivals import Arrivals
from leasehold.lifecycle.pull.files.incoming_file import Coming
from leasehold.lifecycle.pull.files.local_copies import AtHome
from leasehold.lifecycle.pull.flush import Flushing
from leasehold.lifecycle.pull.scheduler import Desk

SIZE = 1 << 20


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which filesystems were written back, by a file of theirs."""
    found: list[str] = []
    monkeypatch.setattr(flush, "_sync_disk_of", found.append)
    return found


def desk_of(folder: Path, count: int) -> Desk:
    """A desk to which so many files of a megabyte have come."""
    desk = Desk(Arrivals(folder), AtHome((), "toy-1"))
    desk.add([Coming(number, "main", str(number), SIZE, 1, str(folder / str(number))) for number in range(count)])
    desk.all_listed()
    for file in desk.files:
        Path(file.target).write_bytes(b"x")
        desk.came_whole(file, "ab", "ab")
    return desk


def test_much_is_written_back_while_the_rest_comes(tmp_path, synced):
    desk = desk_of(tmp_path, 100)
    ahead = Flushing(desk)
    ahead.step()
    assert synced == [], "what was here before it began is not news"
    desk.home_bytes += 50 * SIZE
    ahead.step()
    ahead.rest()
    assert synced == [desk.files[0].target] * 2, "once ahead and once in the end"


def test_few_files_are_synced_one_by_one(tmp_path, synced):
    desk = desk_of(tmp_path, 3)
    ahead = Flushing(desk)
    desk.home_bytes += 50 * SIZE
    ahead.step()
    ahead.rest()
    assert synced == []


def test_a_write_that_was_lost_ahead_is_told_in_the_end(tmp_path, monkeypatch):
    desk = desk_of(tmp_path, 100)
    answers = iter([OSError(5, "lost"), None])

    def sync(path: str) -> None:
        answer = next(answers)
        if answer is not None:
            raise answer

    monkeypatch.setattr(flush, "_sync_disk_of", sync)
    ahead = Flushing(desk)
    desk.home_bytes += 50 * SIZE
    ahead.step()
    with pytest.raises(OSError, match="lost"):
        ahead.rest()


def test_one_filesystem_is_written_back_or_the_error_is_told(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"x")
    monkeypatch.setattr(os, "sync", lambda: pytest.fail("every mount of this machine was waited for"))
    flush._sync_disk_of(str(tmp_path / "a"))
    with pytest.raises(FileNotFoundError):
        flush._sync_disk_of(str(tmp_path / "missing"))


def test_where_one_alone_cannot_be_asked_all_are(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"x")
    synced = []
    monkeypatch.setattr(os, "sync", lambda: synced.append(1))
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    flush._sync_disk_of(str(tmp_path / "a"))
    assert synced == [1]
