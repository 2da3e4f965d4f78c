"""The box is told of every file once, in whichever order they come, and most of it before the end."""

from __future__ import annotations

import random
from hashlib import sha256
from pathlib import Path

import pytest

from leasehold.lifecycle.pull.files.arrivals import Arrivals
from leasehold.lifecycle.pull.files.incoming_file import Coming
from leasehold.lifecycle.pull.files.local_copies import AtHome
from leasehold.lifecycle.pull.report_digests import Telling
from leasehold.lifecycle.pull.scheduler import Desk

LARGE = 1 << 20


def digest(number: int) -> str:
    return sha256(b"%d" % number).hexdigest()


class Heard:
    """A box that listens."""

    def __init__(self) -> None:
        self.sums: dict[int, bytes] = {}
        self.tellings = 0
        self.sealed = 0

    def tell(self, ranges: list[tuple[int, int]], digests: bytes) -> None:
        """Take sums of ranges."""
        numbers = [number for start, count in ranges for number in range(start, start + count)]
        assert len(digests) == 32 * len(numbers)
        assert not self.sums.keys() & set(numbers), "nothing is told twice"
        assert numbers == sorted(numbers)
        self.sums.update({number: digests[32 * at : 32 * at + 32] for at, number in enumerate(numbers)})
        self.tellings += 1

    def seal(self, ranges: list[tuple[int, int]], digests: bytes) -> None:
        """That was all."""
        self.tell(ranges, digests)
        self.sealed = len(digests) // 32


def desk_of(folder: Path, sizes: list[int]) -> Desk:
    desk = Desk(Arrivals(folder), AtHome((), "toy-1"))
    files = [Coming(n, "main", str(n), size, 1, str(folder / str(n))) for n, size in enumerate(sizes)]
    for start in range(0, len(files), 700):  # the list comes in pieces
        desk.add(files[start : start + 700])
    desk.all_listed()
    return desk


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 3000])
def test_every_file_is_told_of_once(tmp_path, count, seed):
    chance = random.Random(seed)
    desk = desk_of(tmp_path, [LARGE if chance.random() < 0.05 else 10 for _ in range(count)])
    heard = Heard()
    telling = Telling(desk, heard)  # type: ignore[arg-type]
    order = list(range(count))
    order.sort(key=lambda number: number + chance.uniform(0, 500))  # several connections bring them
    for at, number in enumerate(order):
        if desk.files[number].sealed:
            desk.came_whole(desk.files[number], digest(number), digest(number))
        if at % 50 == 0:
            telling.step()
    telling.rest()
    assert sorted(heard.sums) == list(range(count))
    small = {number for number in range(count) if desk.files[number].bytes < LARGE}
    assert {number for number, said in heard.sums.items() if any(said)} == small
    assert all(heard.sums[number].hex() == digest(number) for number in small)
    if count == 3000:
        assert heard.sealed < 800, "most of it was told before the end"


def test_one_late_file_holds_up_only_its_neighbours(tmp_path):
    desk = desk_of(tmp_path, [10] * 6400)
    heard = Heard()
    telling = Telling(desk, heard)  # type: ignore[arg-type]
    for number in range(1, 6400):
        desk.came_whole(desk.files[number], digest(number), digest(number))
        if number % 100 == 0:
            telling.step()
    desk.came_whole(desk.files[0], digest(0), digest(0))
    telling.rest()
    assert len(heard.sums) == 6400
    assert heard.sealed <= 64 + 400


def test_a_box_is_not_told_so_often_that_it_must_hold_it(tmp_path):
    desk = desk_of(tmp_path, [10] * 30_000)
    heard = Heard()
    telling = Telling(desk, heard)  # type: ignore[arg-type]
    for number in range(30_000):
        desk.came_whole(desk.files[number], digest(number), digest(number))
        if number % 100 == 0:
            telling.step()
    assert heard.tellings <= 24
    telling.rest()
    assert len(heard.sums) == 30_000
