"""A list that comes in pieces from an untrusted box: checked, written down, and fetched from while it goes on."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from leasehold.errors import HomeError, VerifyError
from leasehold.lifecycle.pull import list_reader
from leasehold.lifecycle.pull.files.arrivals import Arrivals
from leasehold.lifecycle.pull.files.local_copies import AtHome
from leasehold.lifecycle.pull.list_reader import Anything, Intake, ListPiece, Place, drop_changed, read_pieces
from leasehold.lifecycle.pull.scheduler import Desk
from tests.support.fake_box import FakeChart, FakeEngine
from tests.unit.lifecycle.conftest import FILES

Rows = list[list[Any]]


def row(path: str, size: Any = 3, mtime_ns: Any = 7, cell: str = "main") -> list[Any]:
    return [cell, path, size, mtime_ns]


def packed(rows: Any) -> bytes:
    return zlib.compress(json.dumps(rows).encode())


def piece(*rows: list[Any]) -> ListPiece:
    return ListPiece([tuple(one) for one in rows], json.dumps(rows).encode())  # type: ignore[misc]


def intake(folder: Path, *, resumes: bool = False, room: Sequence[int] = (10**6,)) -> tuple[Intake, Desk]:
    """An intake into a folder with room for so many files, the first figure of these."""

    def check_room(where: Path, need_bytes: int, need_files: int) -> None:
        if need_files > room[0]:
            raise HomeError("home.inodes_short", f"{need_files} files")

    desk = Desk(Arrivals(folder), AtHome((), "toy-1"))
    return Intake(Place(folder, (), check_room), desk, resumes=resumes), desk


def test_pieces_are_read_up_to_the_end_of_the_list():
    parts = iter([packed([row("a")]), packed([row("b/c"), row("b/d")]), {"listed": 3}, {"sums": []}])
    assert [one.rows for one in read_pieces(parts, Anything())] == [
        [("main", "a", 3, 7)],
        [("main", "b/c", 3, 7), ("main", "b/d", 3, 7)],
    ]
    assert next(parts) == {"sums": []}, "what follows the list is somebody else's"


@pytest.mark.parametrize(
    "rows",
    [
        [row("../a")],
        [row("/a")],
        [row("a", 0)],
        [row("a", -1)],
        [row("a", True)],
        [row("a", "3")],
        [row("a", 3, None)],
        [row("a", cell="../b")],
        [row("a", cell="")],
        [["main", "a", 3]],
        [[["main"], "a", 3, 7]],
        [7],
        7,
        None,
        {"main": 1},
    ],
)
def test_a_hostile_piece_is_refused(rows):
    with pytest.raises(VerifyError, match="cannot be trusted"):
        list(read_pieces(iter([packed([row("first")]), packed(rows), {"listed": 2}]), Anything()))


@pytest.mark.parametrize("earlier, later", [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("x/a/b", "x/a")])
def test_paths_that_cannot_stand_side_by_side_are_refused_across_pieces(earlier, later):
    with pytest.raises(VerifyError, match="cannot be trusted"):
        list(read_pieces(iter([packed([row(earlier)]), packed([row(later)])]), Anything()))


def test_the_same_path_in_two_cells_is_no_clash():
    assert len(list(read_pieces(iter([packed([row("a"), row("a", cell="other")])]), Anything()))) == 1


@pytest.mark.parametrize("part", [b"not packed", packed([row("a")])[:-3] + b"xyz", b""])
def test_a_piece_that_does_not_unpack_is_refused(part):
    with pytest.raises(VerifyError):
        list(read_pieces(iter([part]), Anything()))


def test_a_list_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(list_reader, "_MOST_BYTES", 3000)
    many = (packed([row(f"{number}" * 20)]) for number in range(10**6))
    with pytest.raises(VerifyError, match="does not end"):
        list(read_pieces(many, Anything()))


def test_room_is_looked_for_before_each_piece_is_asked_for(tmp_path):
    taking, desk = intake(tmp_path, room=[2])
    taking.add(piece(row("a"), row("b")))
    taking.add(piece(row("c")))
    taking.add(piece(row("d")))
    assert [file.path for file in desk.files] == ["a", "b"], "for more there is no room"
    with pytest.raises(HomeError, match="4 files"):
        taking.complete()


def test_files_that_waited_for_room_come_when_there_is_some(tmp_path):
    room = [2]
    taking, desk = intake(tmp_path, room=room)
    taking.add(piece(row("a"), row("b"), row("c")))
    room[0] = 5
    taking.add(piece(row("d")))
    taking.complete()
    assert [(file.number, file.path) for file in desk.files] == [(0, "a"), (1, "b"), (2, "c"), (3, "d")]


def test_files_that_came_meanwhile_need_no_room_any_more(tmp_path):
    room = [3]
    taking, desk = intake(tmp_path, room=room)
    taking.add(piece(row("a"), row("b"), row("c")))
    for file in desk.files[:2]:
        desk.came_whole(file, "ab", "ab")
    room[0] -= 2
    taking.add(piece())
    taking.complete()
    room[0] += 1
    taking.add(piece(row("d")))
    taking.complete()
    assert [file.path for file in desk.files] == ["a", "b", "c", "d"]


def test_a_list_that_goes_on_after_the_pull_is_over_is_not_written(tmp_path):
    taking, desk = intake(tmp_path)
    taking.close()
    with open(tmp_path / "another", "wb") as other:  # has the number that the list had
        taking.add(piece(row("a")))
        taking.close()
        assert other.write(b"own") == 3
    assert (tmp_path / "another").read_bytes() == b"own"
    assert desk.files == []


def test_parts_of_files_that_changed_since_the_last_try_are_dropped(tmp_path):
    taking, desk = intake(tmp_path)
    taking.add(piece(row("same"), row("gone/away")))
    taking.add(piece(row("changed", 3)))
    taking.close()
    for file in desk.files:
        Path(file.target).parent.mkdir(parents=True, exist_ok=True)
        Path(file.target).write_bytes(b"abc")
        desk.arrivals.note(file.key, 0, 3)
    desk.arrivals.close()
    drop_changed(tmp_path, [piece(row("same"), row("changed", 4))])
    again, desk = intake(tmp_path, resumes=True)
    again.add(piece(row("same"), row("changed", 4)))
    assert {file.path: file.home.total for file in desk.files} == {"same": 3, "changed": 0}
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "arrived.jsonl",
        "listing.jsonl",
        "same",
    ]


def test_a_torn_or_spoiled_list_costs_only_what_it_no_longer_says(tmp_path):
    rows = json.dumps([row("kept", 9)]).encode()
    (tmp_path / list_reader.NAME).write_bytes(b"[[1,\nnonsense\n" + rows + b"\n" + rows.replace(b"kept", b"torn"))
    for name in ("kept", "torn"):
        (tmp_path / "cells" / "main").mkdir(parents=True, exist_ok=True)
        (tmp_path / "cells" / "main" / name).write_bytes(b"x")
    drop_changed(tmp_path, [piece(row("other"))])
    assert [path.name for path in (tmp_path / "cells" / "main").iterdir()] == ["torn"]


def test_what_an_older_version_was_to_bring_is_known(tmp_path):
    entry = {"path": "best", "bytes": 3, "mtime_ns": 7}
    (tmp_path / "listing.json").write_text(json.dumps({"cells": {"main": [entry]}}))
    (tmp_path / "cells" / "main").mkdir(parents=True)
    (tmp_path / "cells" / "main" / "best").write_bytes(b"x")
    drop_changed(tmp_path, [piece(row("best"))])
    assert (tmp_path / "cells" / "main" / "best").exists()
    drop_changed(tmp_path, [piece(row("best", 3, 8))])
    assert not (tmp_path / "cells").exists()


def test_files_come_while_the_list_goes_on(new_scene, monkeypatch):
    scene = new_scene().finish(FILES)
    asked = threading.Event()
    chart = FakeEngine.chart

    def slowly(self: FakeEngine, *rest: Any, look: bool) -> FakeChart:
        def parts() -> Iterator[Any]:
            for number, part in enumerate(chart(self, *rest, look=look)):
                if number == 1 + look:
                    assert asked.wait(60), "nothing was asked for before the list had ended"
                yield part

        return FakeChart(parts())

    def on_get(path: str, offset: int, data: bytes) -> Iterator[bytes]:
        asked.set()
        return iter([data])

    monkeypatch.setattr(FakeEngine, "chart", slowly)
    scene.box.on_get = on_get
    scene.pull()
    assert (scene.folders.export / "receipt.json").exists()
