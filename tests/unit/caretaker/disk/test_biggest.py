"""Who eats the disk: sums, links, loops, and a clock. Runs under PyPy too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List

import pytest

from leasehold.caretaker.disk.biggest import find

KIB = 1024


def fill(path: Path, kib: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * kib * KIB)
    return path


def names(found: Dict[str, Any]) -> List[str]:
    return [os.path.basename(hog["path"]) for hog in found["hogs"]]


def test_the_biggest_comes_first_with_its_bytes_and_files(tmp_path: Path) -> None:
    fill(tmp_path / "small.bin", 8)
    for number in range(5):
        fill(tmp_path / "runs" / ("r%d" % number) / "last.pt", 64)
    fill(tmp_path / "data" / "train.bin", 200)
    found = find(str(tmp_path), 10)
    assert found["complete"] is True
    assert names(found) == ["runs", "data", "small.bin"]
    assert found["hogs"][0]["bytes"] >= 5 * 64 * KIB
    assert found["hogs"][0]["files"] == 11  # five files, five folders, and itself
    assert found["hogs"][2] == {"path": str(tmp_path / "small.bin"), "bytes": 8 * KIB, "files": 1, "real": ""}


def test_a_link_out_of_the_folder_is_followed_and_its_target_said(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere" / "big.bin", 100)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "cache").symlink_to(tmp_path / "elsewhere")
    (hog,) = find(str(tmp_path / "here"), 10)["hogs"]
    assert hog["bytes"] >= 100 * KIB
    assert hog["real"] == str(tmp_path / "elsewhere")


def test_links_further_down_are_not_followed(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere" / "big.bin", 100)
    (tmp_path / "here" / "deep").mkdir(parents=True)
    (tmp_path / "here" / "deep" / "link").symlink_to(tmp_path / "elsewhere")
    (hog,) = find(str(tmp_path / "here"), 10)["hogs"]
    assert hog["bytes"] < 100 * KIB


def test_nothing_is_counted_twice(tmp_path: Path) -> None:
    fill(tmp_path / "a.bin", 100)
    os.link(str(tmp_path / "a.bin"), str(tmp_path / "b.bin"))
    (tmp_path / "c").symlink_to(tmp_path / "a.bin")
    assert sum(hog["bytes"] for hog in find(str(tmp_path), 10)["hogs"]) == 100 * KIB


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    fill(tmp_path / "here" / "x" / "a.bin", 4)
    (tmp_path / "here" / "up").symlink_to(tmp_path)
    (tmp_path / "here" / "self").symlink_to(tmp_path / "here" / "self")
    found = find(str(tmp_path / "here"), 10)
    assert found["complete"] is True
    assert sorted(names(found)) == ["self", "up", "x"]


def test_a_dangling_link_weighs_nothing(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "never")
    (hog,) = find(str(tmp_path), 10)["hogs"]
    assert (hog["bytes"], hog["files"]) == (0, 0)


def test_holes_are_not_bytes(tmp_path: Path) -> None:
    with open(str(tmp_path / "sparse"), "wb") as file:
        file.truncate(1 << 30)
    assert find(str(tmp_path), 10)["hogs"][0]["bytes"] < 1 << 20


def test_when_the_time_is_up_that_is_said(tmp_path: Path) -> None:
    for number in range(20):
        fill(tmp_path / str(number) / "a.bin", 1)
    found = find(str(tmp_path), -1)
    assert found["complete"] is False
    assert len(found["hogs"]) <= 1


def test_only_the_biggest_dozen_is_told(tmp_path: Path) -> None:
    for number in range(20):
        fill(tmp_path / ("%02d" % number), 4 * (number + 1))
    assert names(find(str(tmp_path), 10)) == ["%02d" % number for number in range(19, 7, -1)]


@pytest.mark.parametrize("path", ["/no/such/place", "/dev/null"])
def test_what_is_no_folder_has_no_hogs(path: str) -> None:
    assert find(path, 10) == {"path": path, "hogs": [], "complete": True}


def test_odd_names_are_told_as_they_are(tmp_path: Path, odd_name: str) -> None:
    fill(tmp_path / odd_name / "a.bin", 4)
    assert names(find(str(tmp_path), 10)) == [odd_name]
