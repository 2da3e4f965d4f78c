"""Notes on a shared disk: left once, found as they are, gone afterwards."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from leasehold.caretaker.disk import shared_disk_probe

NAME = "0123456789abcdef"


def test_a_note_is_found_as_it_was_left_and_then_gone(tmp_path: Path, odd_name: str) -> None:
    folder = tmp_path / odd_name
    folder.mkdir()
    assert shared_disk_probe.leave(str(folder), NAME, "hello") == ""
    found = shared_disk_probe.find(str(folder), NAME, 0)
    assert (found["text"], found["disk"]["exists"]) == ("hello", True)
    assert shared_disk_probe.drop(str(folder), NAME) == ""
    assert shared_disk_probe.find(str(folder), NAME, 0)["text"] is None
    assert os.listdir(str(folder)) == []


def test_taking_away_what_is_gone_is_no_fault(tmp_path: Path) -> None:
    assert shared_disk_probe.drop(str(tmp_path), NAME) == ""


def test_a_note_is_never_written_over_a_file_that_is_there(tmp_path: Path) -> None:
    shared_disk_probe.leave(str(tmp_path), NAME, "first")
    assert "File exists" in shared_disk_probe.leave(str(tmp_path), NAME, "second")
    assert shared_disk_probe.find(str(tmp_path), NAME, 0)["text"] == "first"


def test_a_folder_that_is_not_there_is_said_by_both_ends(tmp_path: Path) -> None:
    place = str(tmp_path / "nowhere")
    assert "No such file" in shared_disk_probe.leave(place, NAME, "hello")
    found = shared_disk_probe.find(place, NAME, 30)
    assert (found["text"], found["disk"]["exists"]) == (None, False)


def test_a_note_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    def leave() -> None:
        time.sleep(0.15)
        shared_disk_probe.leave(str(tmp_path), NAME, "late")

    late = threading.Thread(target=leave)
    late.start()
    found = shared_disk_probe.find(str(tmp_path), NAME, 30)
    late.join()
    assert found["text"] == "late"


def test_a_note_that_is_just_being_written_is_waited_for(tmp_path: Path) -> None:
    place = tmp_path / (".leasehold-note-" + NAME)
    place.write_text("")
    assert shared_disk_probe.find(str(tmp_path), NAME, 0)["text"] is None
    late = threading.Timer(0.15, place.write_text, ["late"])
    late.start()
    found = shared_disk_probe.find(str(tmp_path), NAME, 30)
    late.join()
    assert found["text"] == "late"


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not for you")
    (tmp_path / (".leasehold-note-" + NAME)).symlink_to(tmp_path / "secret")
    assert shared_disk_probe.find(str(tmp_path), NAME, 0)["text"] is None


def test_names_are_hexadecimal_only() -> None:
    assert shared_disk_probe.NAME.match(NAME)
    for name in ("", "../../etc/passwd", "short", NAME + "\n", NAME.upper(), "a" * 65):
        assert not shared_disk_probe.NAME.match(name), name
