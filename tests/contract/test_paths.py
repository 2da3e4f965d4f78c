"""Names that shells do not expect, on both ends; and paths that must not be followed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leasehold.errors import BoxError
from leasehold.kit.files.manifest import parse
from leasehold.transport.wire import ask_status
from tests.contract.doors import CODE, RESULT, RUN, Code, Door, laid_out, plan_of, prints, seal, wait_end
from tests.support.lives import eventually


def test_our_folder_may_have_any_name(odd_door: Door) -> None:
    engine = odd_door.start(plan_of(RESULT + "echo out"))
    assert wait_end(engine)["state"] == "finished"
    assert engine.box.probe()["root"] == odd_door.place
    assert (odd_door.out() / "result.txt").read_text() == "done"
    assert b"".join(engine.ranges.get(RUN, "out", "main", "result.txt")) == b"done"
    assert eventually(lambda: told_state(odd_door) == "finished"), "the journal has the end first"


def told_state(door: Door) -> str:
    return str(json.loads(ask_status(door.transport, door.place)[0][1])["state"])


def test_code_may_have_any_name(door: Door, odd_name: str, tmp_path: Path) -> None:
    code = Code({odd_name: b"one", f"{odd_name}/x".replace(odd_name, odd_name + " folder", 1): b"two"})
    engine = door.engine()
    assert engine.uploads.push(code)
    assert laid_out(door, code, tmp_path / "copy") == code.files


def test_artifacts_may_have_any_name(door: Door, odd_name: str) -> None:
    engine = door.start(plan_of(RESULT, "**"))
    wait_end(engine)
    (door.out() / odd_name).mkdir()
    (door.out() / odd_name / odd_name).write_bytes(b"content")
    path = f"{odd_name}/{odd_name}"
    sealed = parse(json.loads(seal(engine)), RUN)
    assert [entry["path"] for entry in sealed["cells"]["main"]] == sorted([path, "result.txt"])
    assert [entry["path"] for entry in prints(engine)[0]["main"]] == sorted([path, "result.txt"])
    assert b"".join(engine.ranges.get(RUN, "out", "main", path)) == b"content"
    assert path in [entry["path"] for entry in engine.proof.salvageable(RUN, "main")]


def test_a_name_that_is_not_utf8_is_named_in_the_refusal(door: Door) -> None:
    engine = door.start(plan_of(RESULT, "**"))
    wait_end(engine)
    with open(os.fsencode(door.out()) + b"/caf\xe9", "wb") as file:
        file.write(b"x")
    with pytest.raises(BoxError) as caught:
        seal(engine)
    assert caught.value.code == "artifact.unsealable"
    assert "caf" in caught.value.message
    assert engine.box.probe()["system"]


ESCAPES = [
    "../../plan.json",
    "/etc/hostname",
    "a/../../../plan.json",
    "./result.txt",
    "link",
    "folder/result.txt",
    "",
    "a\0b",
    "absent",
]


@pytest.mark.parametrize("path", ESCAPES, ids=repr)
def test_get_follows_nothing_out_of_its_area(door: Door, path: str) -> None:
    engine = door.start(plan_of(RESULT))
    wait_end(engine)
    (door.out() / "link").symlink_to("/etc/hostname")
    (door.out() / "folder").symlink_to(door.out())
    with pytest.raises(BoxError) as caught:
        b"".join(engine.ranges.get(RUN, "out", "main", path))
    assert caught.value.code == "artifact.unreadable"
    assert engine.box.probe()["system"]


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_get_refuses_what_is_no_plain_file(door: Door, kind: str) -> None:
    engine = door.start(plan_of(RESULT))
    wait_end(engine)
    os.mkdir(door.out() / "thing") if kind == "folder" else os.mkfifo(door.out() / "thing")
    with pytest.raises(BoxError):
        b"".join(engine.ranges.get(RUN, "out", "main", "thing"))
    assert engine.box.probe()["system"]


@pytest.mark.parametrize("area, cell", [("out", "../cells"), ("cells", ".."), ("out", ""), ("elsewhere", "main")])
def test_get_refuses_areas_and_cells_that_are_none(door: Door, area: str, cell: str) -> None:
    engine = door.start(plan_of(RESULT))
    wait_end(engine)
    with pytest.raises(BoxError):
        b"".join(engine.ranges.get(RUN, area, cell, "result.txt"))


def test_the_journal_and_the_attempts_can_be_had_as_evidence(door: Door) -> None:
    engine = door.start(plan_of(RESULT + "echo said"))
    wait_end(engine)
    assert b"run_finished" in b"".join(engine.ranges.get(RUN, "run", "", "journal.jsonl"))
    assert json.loads(b"".join(engine.ranges.get(RUN, "run", "", "plan.json")))["tree"] == CODE.sha256
    assert b"".join(engine.ranges.get(RUN, "cells", "main", "attempt-0001/log")) == b"said\n"
    assert json.loads(b"".join(engine.ranges.get(RUN, "cells", "main", "attempt-0001/exit.json")))["code"] == 0


@pytest.mark.parametrize("promise", ["empty", "link", "folder-link", "fifo"])
def test_an_artifact_that_is_no_plain_file_with_content_is_not_sealed(door: Door, promise: str) -> None:
    engine = door.start(plan_of(RESULT, "*"))
    wait_end(engine)
    place = door.out() / "thing"
    if promise == "empty":
        place.touch()
    elif promise == "fifo":
        os.mkfifo(place)
    else:
        place.symlink_to("/etc/hostname" if promise == "link" else "/etc")
    with pytest.raises(BoxError) as caught:
        seal(engine)
    assert caught.value.code == "artifact.unsealable"
