"""A cell is sealed only when every promised artifact is there, plain, full, of this run, and hashed."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any, Dict

import pytest

from leasehold.caretaker.artifacts import seal
from leasehold.caretaker.run.run_folder import RunFolder
from tests.unit.caretaker.run_folders import journal, make, put

LONG_AGO = 1_000_000_000.0


def sealed(folder: RunFolder, capfd: pytest.CaptureFixture[str]) -> Dict[str, Any]:
    seal.seal(folder, "main")
    return dict(json.loads(capfd.readouterr().out))


def started(attempt: int, at: float, **more: Any) -> Dict[str, Any]:
    return {"k": "attempt_started", "cell": "main", "attempt": attempt, "at": at, **more}


def test_what_was_promised_is_hashed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["best.pt", "samples/*.npy"])
    journal(folder, started(1, time.time() - 5))
    put(folder, "best.pt", "weights")
    put(folder, "samples/1.npy", "1")
    answer = sealed(folder, capfd)
    assert (answer["ok"], answer["files"], answer["bytes"], answer["from_before"]) == (True, 2, 8, [])
    kept = json.loads(Path(folder.sealed("main")).read_text())
    assert kept["entries"][0] == {"path": "best.pt", "bytes": 7, "sha256": hashlib.sha256(b"weights").hexdigest()}


def test_more_than_may_be_read_at_once_is_left_to_a_child(tmp_path: Path) -> None:
    folder = make(tmp_path, ["best.pt"])
    journal(folder, started(1, time.time() - 5))
    put(folder, "best.pt", "weights")
    assert seal.sealed(folder, "main", most_bytes=6) is None
    assert not os.path.exists(folder.sealed("main"))
    found = seal.sealed(folder, "main", most_bytes=7)
    assert found is not None
    assert (found["ok"], found["bytes"]) == (True, 7)
    kept = json.loads(Path(folder.sealed("main")).read_text())
    assert kept["entries"][0]["sha256"] == hashlib.sha256(b"weights").hexdigest()


def test_everything_that_lacks_is_listed_at_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["best.pt", "empty.json", "link.json", "metrics.json"])
    journal(folder, started(1, time.time() - 5))
    put(folder, "empty.json", "")
    os.symlink("/etc/passwd", os.path.join(folder.out("main"), "link.json"))
    put(folder, "metrics.json")
    lacking = " ".join(sealed(folder, capfd)["lacking"])
    assert "'best.pt'" in lacking
    assert "empty.json is empty" in lacking
    assert "link.json is a symlink" in lacking
    assert "metrics.json" not in lacking
    assert not os.path.exists(folder.sealed("main"))


def test_a_file_from_before_the_run_is_no_result_of_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["best.pt"])
    put(folder, "best.pt")
    journal(folder, started(1, time.time() + 60))
    assert "older than this run's first attempt" in sealed(folder, capfd)["lacking"][0]


def test_a_copy_that_kept_its_sources_time_is_a_result(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["config.json"])
    journal(folder, started(1, time.time() - 5))
    put(folder, "config.json", at=LONG_AGO)
    assert sealed(folder, capfd)["ok"]


def test_what_an_earlier_attempt_left_counts_and_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["best.pt"])
    put(folder, "best.pt")
    journal(folder, started(1, time.time() - 60), started(2, time.time() + 60))
    answer = sealed(folder, capfd)
    assert (answer["ok"], answer["from_before"]) == (True, ["best.pt"])


def test_a_clock_that_was_set_back_makes_no_result_old(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["best.pt"])
    hours = 3 * 3600.0
    journal(folder, started(1, time.time() + hours, up_s=time.monotonic() - 1))
    put(folder, "best.pt")
    assert sealed(folder, capfd)["ok"]


def test_a_mended_promise_is_what_counts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["never.pt"])
    journal(folder, started(1, time.time() - 5))
    put(folder, "metrics.json")
    Path(folder.promises).write_text('{"patterns": ["metrics.json"]}')
    assert sealed(folder, capfd)["ok"]


def test_a_result_in_the_working_folder_is_hinted_at(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, ["best.pt"])
    journal(folder, started(1, time.time() - 5))
    os.makedirs(folder.work("main"))
    Path(folder.work("main"), "best.pt").write_text("x")
    assert "write it into $LEASE_OUT" in sealed(folder, capfd)["lacking"][-1]
