"""Names at home: no two of them are one on any file system, and a name that no disk refuses is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.lifecycle.home.result_names import HomeNames, Probe, folded, listed_order, named, twins

_CHARS = "aA.~ \u00e9\u0301eßſ\u200d"
_SEGMENTS = st.text(_CHARS, min_size=1, max_size=3).filter(lambda text: text not in (".", ".."))
_PATHS = st.lists(st.lists(_SEGMENTS, min_size=1, max_size=3).map("/".join), min_size=1, max_size=8, unique=True)


def possible(paths: list[str]) -> list[str]:
    """Leave out what no box can have: a file below a file."""
    return [path for path in paths if not any(other.startswith(path + "/") for other in paths)]


def whole(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


@given(_PATHS)
def test_no_two_names_are_one_anywhere(paths: list[str]) -> None:
    listed = sorted(possible(paths), key=listed_order)
    names = named([("main", path) for path in listed], lambda segment: True)
    assert len(names) == len(listed)
    seen: dict[str, str] = {}
    for home in names.values():
        for spelled in whole(home):
            key = "/".join(folded(part) for part in spelled.split("/"))
            assert seen.setdefault(key, spelled) == spelled
    homes = set(names.values())
    assert not any(other.startswith(home + "/") for home in homes for other in homes)


@given(_PATHS, _PATHS)
def test_a_file_that_was_named_before_keeps_its_name(paths: list[str], more: list[str]) -> None:
    listed = sorted(possible(list(dict.fromkeys(paths + more))), key=listed_order)
    first = named([("main", path) for path in listed if path in paths], lambda segment: True)
    names = HomeNames()
    for (cell, path), home in first.items():
        names.keep(cell, path, home)
    later = {path: names.of("main", path) for path in listed}
    assert all(later[path] == home for (_, path), home in first.items())
    assert len({"/".join(folded(part) for part in home.split("/")) for home in later.values()}) == len(listed)


def windows(segment: str) -> bool:
    """Whether NTFS keeps a name."""
    odd = any(char in '\\:*?"<>|' or ord(char) < 32 for char in segment)
    stem = segment.partition(".")[0].lower()
    return not odd and segment[-1] not in ". " and stem not in ("aux", "nul", "con", "com1")


@pytest.mark.parametrize("path", ["aux.json", "d/nul.tar.gz", "a:b.json", "x.", "x ", "com1/x", "a\tb", '"', "AUX"])
def test_a_name_that_the_disk_refuses_is_replaced_by_one_that_it_keeps(path: str) -> None:
    home = HomeNames(windows).of("main", path)
    assert home != path
    assert all(windows(part) for part in home.split("/"))
    assert HomeNames(windows).of("main", path) == home


def test_a_disk_that_keeps_nothing_odd_gets_plain_words() -> None:
    home = HomeNames(lambda segment: segment.isascii() and windows(segment)).of("main", "d/结果.json")
    assert home.startswith("d/file~") and home.endswith(".json")


def test_a_long_name_stays_within_what_a_disk_takes() -> None:
    names = HomeNames()
    long = "é" * 127
    assert names.of("main", long) == long
    other = names.of("main", long.upper())
    assert other != long.upper() and len(other.encode()) <= 255


def test_what_this_disk_keeps_is_not_renamed(tmp_path: Path) -> None:
    probe = Probe(tmp_path)
    assert all(probe(name) for name in ("x.", "a:b", "aux", "é", "e\u0301", " "))
    assert list(tmp_path.iterdir()) == []


def test_twins_are_named_with_whom_they_resemble() -> None:
    (two, one) = twins(["d/A.json", "d/a.json", "e/x", "E/y"])
    assert (one.path, one.other) == ("e", "E") and one.name.startswith("e~")
    assert (two.path, two.other) == ("d/a.json", "d/A.json") and two.name.startswith("d/a~")
    assert twins(["a", "b/a", "b.a"]) == []
