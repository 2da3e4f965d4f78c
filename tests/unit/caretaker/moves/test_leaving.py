"""What a stopped run leaves: the newest state that is whole, by step rather than clock, and the files beside it."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any, Dict, Optional

import pytest

from leasehold.caretaker.moves.leaving import Leaver, Left, described, leave
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.refuge.records import encode_state

PATTERN = "checkpoints/step-*.json"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    path = tmp_path / "active" / "toy-0123456789"
    path.mkdir(parents=True)
    return RunFolder(str(path))


def write(folder: RunFolder, name: str, data: bytes, age_s: float = 0.0) -> None:
    path = Path(folder.out("main"), name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (time.time() - age_s, time.time() - age_s))


def left(folder: RunFolder, pattern: str = PATTERN, killed: bool = False, **job: Any) -> Optional[Left]:
    plan: Dict[str, Any] = {"job": {"checkpoint": {"path": pattern}, **job}}
    by = Leaver(1, "a", 3, time.time(), killed)
    return leave(folder, plan, "main", by, lambda count: None)


def test_the_newest_state_and_what_lies_beside_it_are_hashed(folder: RunFolder) -> None:
    for step in (5, 10):
        write(folder, f"checkpoints/step-{step}.json", json.dumps({"step": step}).encode(), 60.0 - step)
    write(folder, "curve.csv", b"1,2\n")
    write(folder, "cache/big.bin", b"scratch")
    found = left(folder, scratch=["cache/**"])
    assert found is not None
    assert (found.state.step, found.state.attempt, found.state.box) == (10, 3, "a")
    data = json.dumps({"step": 10}).encode()
    assert [(one.bytes, one.sha256) for one in found.state.files] == [(len(data), hashlib.sha256(data).hexdigest())]
    assert [one.path for one in found.beside] == ["curve.csv"], "no older states, no scratch"
    said = described(found)
    assert (said["id"], said["manifest_sha256"]) == encode_state(found.state)[:0:-1]


def test_a_clock_that_jumped_back_does_not_make_an_older_state_the_newest(folder: RunFolder) -> None:
    write(folder, "checkpoints/step-5.json", b'{"step": 5}', -5000.0)
    write(folder, "checkpoints/step-10.json", b'{"step": 10}', 5000.0)
    found = left(folder)
    assert found is not None and found.state.step == 10


def test_a_torn_newest_state_is_named_and_the_second_newest_is_taken(folder: RunFolder) -> None:
    write(folder, "checkpoints/step-5.json", b'{"step": 5}', 30.0)
    write(folder, "checkpoints/step-10.json", b'{"step": 1', 0.0)
    found = left(folder)
    assert found is not None and found.state.step == 5
    assert len(found.torn) == 1 and "step-10.json" in found.torn[0]


def test_a_file_of_unknown_format_that_a_kill_may_have_cut_is_passed_over(folder: RunFolder) -> None:
    write(folder, "checkpoints/step-5.blob", b"older", 60.0)
    write(folder, "checkpoints/step-10.blob", b"newer", 0.0)
    ended, killed = (left(folder, "checkpoints/step-*.blob", killed=killed) for killed in (False, True))
    assert ended is not None and ended.state.step == 10
    assert killed is not None and killed.state.step == 5 and "as its trainer was killed" in killed.torn[0]


def test_a_job_without_a_checkpoint_leaves_everything_but_scratch(folder: RunFolder) -> None:
    write(folder, "at", b"3")
    write(folder, "cache/big.bin", b"scratch")
    found = left(folder, "", scratch=["cache/**"])
    assert found is not None and found.state.kind == "everything"
    assert [one.path for one in found.state.files] == ["at"]


def test_a_cell_that_saved_nothing_leaves_nothing(folder: RunFolder) -> None:
    assert left(folder) is None and left(folder, "") is None
