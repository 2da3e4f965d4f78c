"""Blocks that are still in memory: gathered whole, written past the cache, hashed without being read."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from pathlib import Path

import pytest

from leasehold.kit.wire.frames import BLOCK_BYTES
from leasehold.lifecycle.pull.files.arrivals import Arrivals
from leasehold.lifecycle.pull.files.block_buffer import Fresh, Gathering
from leasehold.lifecycle.pull.files.incoming_file import Coming
from leasehold.lifecycle.pull.files.local_copies import AtHome
from leasehold.lifecycle.pull.hasher import Hasher
from leasehold.lifecycle.pull.jobs import Piece
from leasehold.lifecycle.pull.range_writer import Landing
from leasehold.lifecycle.pull.scheduler import Desk

SIZE = 3 * BLOCK_BYTES + 12_345


class Place:
    """One large file on its way into a folder."""

    def __init__(self, folder: Path) -> None:
        self.data = os.urandom(SIZE)
        self.file = Coming(0, "main", "model.bin", SIZE, 1, str(folder / "model.bin"))
        self.desk = Desk(Arrivals(folder), AtHome((), "toy-1"))
        self.desk.add([self.file])
        self.desk.all_listed()

    def land(self, start: int, end: int, upto: int | None = None, step: int = 300_001) -> Landing:
        """Let a range come in parts of odd sizes, up to where it is cut."""
        landing = Landing(self.desk, [Piece(self.file, start, end)], Gathering())
        for at in range(start, end if upto is None else upto, step):
            landing.add(self.data[at : min(at + step, end if upto is None else upto)])
        landing.leave()
        return landing

    def here(self) -> bytes:
        """What lies in the file."""
        return Path(self.file.target).read_bytes()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_file_comes_whole_in_any_parts(place):
    place.land(0, SIZE)
    assert place.here() == place.data
    assert place.file.whole


def test_ranges_that_begin_and_end_inside_blocks_come_whole(place):
    for start, end in ((500, BLOCK_BYTES + 77), (BLOCK_BYTES + 77, SIZE), (0, 500)):
        place.land(start, end)
    assert place.here() == place.data


@pytest.mark.parametrize("cut", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES + 5, SIZE - 1])
def test_what_came_of_a_cut_range_is_kept_and_the_rest_asked_for_again(place, cut):
    place.desk.hashed(0, SIZE, (), ())
    batch = place.desk.take(SIZE)
    assert [(piece.start, piece.end) for piece in batch.pieces] == [(0, SIZE)]
    place.land(0, SIZE, upto=cut)
    assert list(place.file.home) == ([(0, cut)] if cut else [])
    again = place.desk.take(SIZE)
    assert [(piece.start, piece.end) for piece in again.pieces] == [(cut, SIZE)]
    assert not cut or place.here()[:cut] == place.data[:cut]


def test_the_hasher_reads_nothing_that_is_still_in_memory(place, monkeypatch):
    read: list[int] = []
    honest = Coming.read
    monkeypatch.setattr(Coming, "read", lambda file, count, at: (read.append(at), honest(file, count, at))[1])
    place.desk.summed(0, hashlib.sha256(place.data).hexdigest())
    place.land(0, SIZE)
    Hasher(place.desk).join(60)
    assert place.file.proved
    assert read == [3 * BLOCK_BYTES], "only the end, which is no whole block"


def test_bytes_that_come_again_are_hashed_as_they_came_last(place):
    place.desk.summed(0, hashlib.sha256(place.data).hexdigest())
    good, place.data = place.data, b"x" * SIZE
    place.land(0, SIZE)
    place.data = good
    place.desk.drop(place.file, [(0, SIZE)])
    place.land(0, SIZE)
    Hasher(place.desk).join(60)
    assert place.file.proved


def test_where_the_disk_takes_nothing_past_the_cache_it_goes_through_it(place, monkeypatch):
    honest = os.pwrite

    def refuse(fd, data, at):
        if os.get_blocking(fd) and fd == place.file._direct_fd:
            raise OSError(errno.EINVAL, "Invalid argument")
        return honest(fd, data, at)

    monkeypatch.setattr(os, "pwrite", refuse)
    place.land(0, SIZE)
    assert place.here() == place.data


def test_a_disk_that_is_full_is_not_mistaken_for_one_that_cannot(place, monkeypatch):
    def full(fd, data, at):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        place.land(0, SIZE)


def test_memory_is_bounded_and_what_does_not_fit_is_read_later(monkeypatch):
    monkeypatch.setattr("leasehold.lifecycle.pull.files.block_buffer._PATIENCE_S", 0.01)
    fresh = Fresh(most_bytes=10)
    fresh.offer(1, 0, [b"123456"])
    fresh.offer(1, 6, [b"789012"])
    assert fresh.take(1, 6) is None
    assert fresh.take(1, 0) == [b"123456"]
    assert fresh.take(1, 0) is None, "handed out once"


def test_whoever_offers_waits_for_room(monkeypatch):
    monkeypatch.setattr("leasehold.lifecycle.pull.files.block_buffer._PATIENCE_S", 60)
    fresh = Fresh(most_bytes=10)
    fresh.offer(1, 0, [b"1234567890"])
    timer = threading.Timer(0.02, fresh.take, (1, 0))
    timer.start()
    fresh.offer(1, 10, [b"abc"])
    timer.join()
    assert fresh.take(1, 10) == [b"abc"]


def test_what_is_forgotten_of_a_file_leaves_the_others():
    fresh = Fresh()
    fresh.offer(1, 0, [b"a"])
    fresh.offer(2, 0, [b"b"])
    fresh.forget(1)
    assert fresh.take(1, 0) is None
    assert fresh.take(2, 0) == [b"b"]
