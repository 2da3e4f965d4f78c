"""Rings of readings: bounded, whole at every byte, readable after every kill, going on when the disk is full."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

from leasehold.caretaker.monitor.ring_files import Ring, Series, merge, spell
from leasehold.kit.files.rings import LEVELS, WIDTH, read_ring, read_window
from tests.support.front import SOURCES, Tmpfs

START = 1_700_000_400  # on a bucket of every level


def fill(folder: Path, count: int, start: int = START, every_s: int = 5) -> None:
    series = Series(str(folder))
    for number in range(count):
        series.add({"t": start + number * every_s, "mem": number, "step": number})
    series.close()


def times(folder: Path, since: float = 0.0) -> List[float]:
    return [record["t"] for record in read_window(str(folder), since, 4e9)]


def test_a_ring_overwrites_its_oldest_and_keeps_its_order(tmp_path: Path) -> None:
    ring = Ring(str(tmp_path / "ring"), 4)
    for number in range(10):
        ring.append({"t": number})
    ring.close()
    assert [record["t"] for record in read_ring(str(tmp_path / "ring"))] == [6, 7, 8, 9]
    assert (tmp_path / "ring").stat().st_size == 4 * WIDTH


def test_a_reopened_ring_goes_on_where_it_was(tmp_path: Path) -> None:
    for number in range(10):
        ring = Ring(str(tmp_path / "ring"), 4)
        ring.append({"t": number})
        ring.close()
    assert [record["n"] for record in read_ring(str(tmp_path / "ring"))] == [7, 8, 9, 10]


def test_every_prefix_of_a_ring_is_readable(tmp_path: Path) -> None:
    fill(tmp_path, 6)
    whole = (tmp_path / "5s.jsonl").read_bytes()
    for cut in range(0, len(whole) + 1, 37):
        (tmp_path / "cut").write_bytes(whole[:cut])
        found = [record["step"] for record in read_ring(str(tmp_path / "cut"))]
        assert found == list(range(len(found))) and cut // WIDTH <= len(found) <= cut // WIDTH + 1


def test_a_torn_slot_is_left_out_and_written_over(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    ring = Ring(str(path), 4)
    for number in range(4):
        ring.append({"t": number})
    ring.close()
    torn = bytearray(path.read_bytes())
    torn[WIDTH + 3 : WIDTH + 9] = b"\0" * 6
    path.write_bytes(torn)
    assert [record["t"] for record in read_ring(str(path))] == [0, 2, 3]
    ring = Ring(str(path), 4)
    ring.append({"t": 4})
    ring.append({"t": 5})
    ring.close()
    assert [record["t"] for record in read_ring(str(path))] == [2, 3, 4, 5]


def test_lines_are_plain_json_of_one_width(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    lines = (tmp_path / "5s.jsonl").read_bytes().splitlines(keepends=True)
    assert {len(line) for line in lines} == {WIDTH}
    assert [json.loads(line)["step"] for line in lines] == [0, 1, 2]


def test_what_does_not_fit_is_left_out_least_needed_first() -> None:
    row = [100, 143771, 700, 80, 1980, 255]
    record: Dict[str, Any] = {"n": 1, "t": 1.5, "step": 10, "m": {"x" * 32: 1.0, "y" * 32: 2.0}, "gpus": [row] * 15}
    kept = json.loads(spell(record))
    assert len(kept["gpus"]) == 15 and "m" not in kept and kept["step"] == 10
    crowded = json.loads(spell(dict(record, gpus=[row] * 40)))
    assert 15 <= len(crowded["gpus"]) < 40 and crowded["step"] == 10


def test_older_readings_come_from_coarser_rings_without_overlap(tmp_path: Path) -> None:
    fill(tmp_path, 3000)  # 4 h 10 min of five seconds
    found = times(tmp_path)
    steps = [after - before for before, after in zip(found, found[1:])]
    assert found == sorted(found) and len(set(found)) == len(found)
    assert steps[-1] == 5 and max(steps) <= 600 and 60 in steps
    assert found[0] <= START + 60


def test_a_window_begins_where_it_was_asked_to(tmp_path: Path) -> None:
    fill(tmp_path, 100)
    assert times(tmp_path, START + 400)[0] == START + 400


def test_a_month_stays_within_a_few_megabytes(tmp_path: Path) -> None:
    assert sum(level.slots for level in LEVELS) * WIDTH < 3_500_000
    for level in LEVELS:
        assert level.every_s * level.slots >= {5: 3600, 60: 86400, 600: 31 * 86400}[level.every_s]


def test_a_killed_writer_loses_no_minute(tmp_path: Path) -> None:
    for part in range(30):  # each writer lives for seven readings and is gone without a word
        series = Series(str(tmp_path))
        for number in range(7):
            at = START + (part * 7 + number) * 5
            series.add({"t": at, "mem": at - START})
    minutes = read_ring(str(tmp_path / "1min.jsonl"))
    assert [record["t"] for record in minutes] == [START + 55 + 60 * number for number in range(len(minutes))]
    assert [record["mem"] for record in minutes] == [55 + 60 * number for number in range(17)]


def test_a_clock_that_goes_back_does_not_stop_the_series(tmp_path: Path) -> None:
    series = Series(str(tmp_path))
    for at in (START + 500, START + 505, START, START + 5):
        series.add({"t": at})
    series.close()
    assert [record["t"] for record in read_ring(str(tmp_path / "5s.jsonl"))] == [
        START + 500,
        START + 505,
        START,
        START + 5,
    ]


def test_merging_takes_means_peaks_and_the_newest() -> None:
    rows = [
        {"n": 1, "t": 5, "loss": 2.0, "mem": 9, "step": 1, "gpus": [[50, 10, 100, 60, 1000, 4]], "a": ["x"]},
        {"n": 2, "t": 10, "loss": None, "mem": 7, "step": 2, "gpus": [[100, 30, 300, 50, 2000, 8], [1, 1, 1, 1, 1, 0]]},
    ]
    assert merge(rows) == {
        "t": 10,
        "loss": 2.0,
        "mem": 9,
        "step": 2,
        "gpus": [[75, 30, 200, 60, 1500, 12], [1, 1, 1, 1, 1, 0]],
        "a": ["x"],
    }


def test_a_loss_that_is_no_number_stays_visible() -> None:
    assert merge([{"t": 1, "loss": None}, {"t": 2, "loss": None}])["loss"] is None


def test_an_absent_ring_is_empty(tmp_path: Path) -> None:
    assert list(read_window(str(tmp_path / "nowhere"), 0, 4e9)) == []


_ON_A_FULL_DISK = """
import os, sys
from leasehold.caretaker.monitor.ring_files import Ring
from leasehold.kit.files.rings import WIDTH, read_ring
place = sys.argv[1]
ring = Ring(os.path.join(place, "ring"), 1000)
for number in range(40):
    ring.append({"t": number})
hog = os.open(os.path.join(place, "hog"), os.O_WRONLY | os.O_CREAT)
try:
    for _ in range(4096):
        os.write(hog, bytes(4096))
except OSError:
    pass
free = os.statvfs(place).f_bavail
for number in range(40, 300):
    ring.append({"t": number})
kept = [record["t"] for record in read_ring(os.path.join(place, "ring"))]
print(free, len(kept), kept[-1], kept == sorted(kept))
"""


@pytest.mark.namespaces
def test_on_a_full_disk_the_newest_readings_take_the_place_of_the_oldest(tmp_path: Path) -> None:
    words = Tmpfs(tmp_path, "size=1m").words()
    asked = [*words, sys.executable, "-c", _ON_A_FULL_DISK, str(tmp_path)]
    done = subprocess.run(
        asked, env={"PYTHONPATH": str(SOURCES), "PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE, check=True
    )
    free, kept, newest, ordered = done.stdout.decode().split()
    assert (free, newest, ordered) == ("0", "299", "True")
    assert int(kept) >= 40
