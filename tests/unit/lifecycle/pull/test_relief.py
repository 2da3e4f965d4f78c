"""What a slow connection owes is brought by a quicker one: every byte lands once, at its place, whoever brings it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from leasehold.kit.wire.frames import BLOCK_BYTES
from leasehold.lifecycle.pull.files.arrivals import Arrivals
from leasehold.lifecycle.pull.files.block_buffer import Gathering
from leasehold.lifecycle.pull.files.incoming_file import Coming
from leasehold.lifecycle.pull.files.local_copies import AtHome
from leasehold.lifecycle.pull.in_flight import Underway
from leasehold.lifecycle.pull.jobs import Batch, Piece, Spare
from leasehold.lifecycle.pull.range_writer import Landing
from leasehold.lifecycle.pull.scheduler import Desk

KIB = 1 << 10
SIZE = 3 * BLOCK_BYTES + 5
CONTENT = bytes(range(251)) * (SIZE // 251 + 1)
ROUND_TRIP_S = 0.1


class Scene:
    """A desk, its files, and what the box would send for pieces of them."""

    def __init__(self, folder: Path, sizes: list[int]) -> None:
        self.desk = Desk(Arrivals(folder), AtHome((), "toy-1"))
        names = [(number, str(number), size, str(folder / f"file{number}")) for number, size in enumerate(sizes)]
        self.desk.add([Coming(number, "main", path, size, 1, target) for number, path, size, target in names])
        self.desk.all_listed()
        for file in self.desk.files:
            file.held = False
            file.upto = file.bytes

    def take(self, size: int) -> Batch:
        """Take a batch that must be there."""
        job = self.desk.take(size)
        assert isinstance(job, Batch)
        return job

    def sent(self, pieces: list[Piece]) -> bytes:
        """What the box sends for them."""
        parts = [CONTENT[p.start : p.end] + (digest(p.file.bytes) if p.file.sealed else b"") for p in pieces]
        return b"".join(parts)

    def here(self) -> bool:
        """Whether every file is at home as it is on the box."""
        for file in self.desk.files:
            file.close()
        return all(Path(file.target).read_bytes() == CONTENT[: file.bytes] for file in self.desk.files)


def digest(size: int) -> bytes:
    return hashlib.sha256(CONTENT[:size]).digest()


@pytest.mark.parametrize("gathers", [False, True])
@pytest.mark.parametrize("came", [0, 1, 100 * KIB, BLOCK_BYTES, BLOCK_BYTES + 7, SIZE - 1])
@pytest.mark.parametrize("keep", [-5, 0, 1, 300 * KIB, 2 * BLOCK_BYTES, SIZE])
def test_a_large_file_is_cut_anywhere(tmp_path, came, keep, gathers):
    scene = Scene(tmp_path, [SIZE])
    pieces = scene.take(SIZE).pieces
    slow = Landing(scene.desk, pieces, Gathering() if gathers else None)
    slow.add(CONTENT[:came])
    given = slow.give_up(keep)
    assert slow.left_bytes + sum(piece.end - piece.start for piece in given) == SIZE - came
    assert slow.left_bytes <= max(0, keep) + 64 * KIB
    quick = Landing(scene.desk, given)
    quick.add(scene.sent(given))
    quick.leave()
    slow.add(CONTENT[came:])  # what was under way comes none the less
    assert slow.full and quick.full
    slow.leave()
    assert scene.desk.missing_bytes == 0
    assert scene.here()


@pytest.mark.parametrize("came", [0, 1, 250, 300, 10_000])
@pytest.mark.parametrize("keep", [0, 1, 1000])
def test_small_files_come_whole_from_one_or_the_other(tmp_path, came, keep):
    scene = Scene(tmp_path, [250, 251, 0, 9_000, 400_000, 70_000])
    pieces = scene.take(SIZE).pieces
    stream = scene.sent(pieces)
    slow = Landing(scene.desk, pieces)
    slow.add(stream[:came])
    given = slow.give_up(keep)
    quick = Landing(scene.desk, given)
    quick.add(scene.sent(given))
    quick.leave()
    slow.add(stream[came:])
    slow.leave()
    assert scene.desk.missing_bytes == 0
    assert scene.here()


def test_what_a_relieved_one_did_not_bring_is_asked_for_again(tmp_path):
    scene = Scene(tmp_path, [SIZE])
    slow = Landing(scene.desk, scene.take(SIZE).pieces)
    slow.add(CONTENT[: 10 * KIB])
    given = slow.give_up(BLOCK_BYTES)
    slow.leave()  # its connection broke
    again = scene.take(SIZE).pieces
    quick = Landing(scene.desk, given + again)
    quick.add(scene.sent(given + again))
    assert quick.full
    assert scene.here()


class Clock:
    """Time that stands still unless told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, [SIZE, SIZE, SIZE])


def underway_of(scene: Scene, clock: Clock, came: list[int]) -> tuple[Underway, list[Landing]]:
    """Three connections that were asked for a file each a second ago, and so much of each came."""
    underway = Underway(1e6, ROUND_TRIP_S, clock)
    landings = [Landing(scene.desk, scene.take(SIZE).pieces) for _ in scene.desk.files]
    for number, landing in enumerate(landings):
        underway.begin(number, landing)
    clock.now += 1.0
    for number, (landing, size) in enumerate(zip(landings, came, strict=True)):
        landing.add(CONTENT[:size])
        underway.heard(number)
        if size == SIZE:
            underway.end(number, landing)
    return underway, landings


def test_the_one_that_would_end_last_is_relieved(scene):
    clock = Clock()
    underway, landings = underway_of(scene, clock, [SIZE, 1000 * KIB, 100 * KIB])
    given = underway.relieve(0)
    assert {piece.file.number for piece in given} == {2}
    ours, theirs = SIZE / 1.0, 100 * KIB / 1.0
    ends = landings[2].left_bytes / theirs, ROUND_TRIP_S + sum(piece.end - piece.start for piece in given) / ours
    assert abs(ends[0] - ends[1]) < 64 * KIB / theirs, "both end at about the same time"


def test_what_ends_soon_is_waited_for(scene):
    underway, _ = underway_of(scene, Clock(), [SIZE - 100 * KIB, SIZE - 100 * KIB, SIZE])
    assert underway.relieve(2) == []


def test_who_has_fallen_silent_is_asked_for_nothing_more(scene):
    clock = Clock()
    underway, landings = underway_of(scene, clock, [SIZE, SIZE - 10 * KIB, SIZE - 10 * KIB])
    assert underway.relieve(0) == [], "a moment is waited for"
    clock.now += 0.4
    underway.heard(1)
    assert {piece.file.number for piece in underway.relieve(0)} == {2}
    assert landings[2].left_bytes == 0


def test_nobody_relieves_himself_or_nobody(scene):
    clock = Clock()
    underway = Underway(1e6, ROUND_TRIP_S, clock)
    assert underway.relieve(0) == []
    underway.begin(0, Landing(scene.desk, scene.take(SIZE).pieces))
    clock.now += 9.0
    assert underway.relieve(0) == []


def test_who_waits_behind_a_slow_answer_is_relieved_first(scene):
    clock = Clock()
    underway = Underway(1e6, ROUND_TRIP_S, clock)
    first, second = (Landing(scene.desk, scene.take(SIZE).pieces) for _ in range(2))
    underway.begin(0, first)
    underway.begin(0, second)
    clock.now += 2.0
    assert {piece.file.number for piece in underway.relieve(1)} == {1}
    assert second.left_bytes == 0
    assert {piece.file.number for piece in underway.relieve(1)} == {0}


def test_only_when_nothing_is_left_to_ask_for_is_somebody_spare(tmp_path):
    scene = Scene(tmp_path, [SIZE])
    scene.desk.files[0].upto = BLOCK_BYTES  # the box still hashes the rest
    scene.take(BLOCK_BYTES)
    scene.desk.hashed(0, SIZE, [], [])
    assert isinstance(scene.desk.take(SIZE, 0.001), Batch)
    assert isinstance(scene.desk.take(SIZE, 0.001), Spare)
