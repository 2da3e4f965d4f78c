"""A trainer that is not our child: real processes, whose end is seen as far as possible. Runs under PyPy too."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from leasehold.caretaker.attempt.adopted import watch_adopted
from leasehold.caretaker.attempt.find_adoptable import candidates
from leasehold.caretaker.process.process_table import ProcessTable
from leasehold.kit.files.atomic import read_json
from leasehold.kit.run.processes import MARK, look

WAITS = (
    "import sys; file = open('exp/last.pt', 'w'); file.write('w'); file.close(); "
    "out = open('exp/metrics.txt', 'w'); print('up', flush=True); "
)
ENDS = "sys.exit(int(sys.stdin.readline()))"


class Trainer:
    """A real process in a folder of its own."""

    def __init__(self, folder: Path, **environment: str) -> None:
        (folder / "exp").mkdir()
        self.log = folder / "log.txt"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", WAITS + ENDS], cwd=str(folder), stdin=subprocess.PIPE, stdout=log,
                env={**os.environ, **environment},
            )  # fmt: skip
        deadline = time.monotonic() + 60
        while "up" not in self.log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        seen = look(self.process.pid)
        self.adopted = {"pid": self.process.pid, "started": seen.started if seen else "", "log": str(self.log)}

    def end(self, code: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"%d\n" % code)
        self.process.stdin.close()


@pytest.fixture
def trainer(tmp_path: Path) -> Iterator[Trainer]:
    made = Trainer(tmp_path)
    yield made
    made.process.kill()
    made.process.wait()


def pause(seconds: float) -> None:
    time.sleep(0.005)


def watch(trainer: Trainer, place: Path, attempt: int = 1) -> Dict[str, Any]:
    place.mkdir()
    return watch_adopted(str(place), trainer.adopted, attempt, pause)


@pytest.mark.parametrize("code", [0, 3])
def test_a_code_that_nobody_asked_for_yet_is_seen(trainer: Trainer, tmp_path: Path, code: int) -> None:
    trainer.end(code)  # its parent, which is this test, does not wait for it yet
    record = watch(trainer, tmp_path / "attempt")
    assert (record["code"], record["signal"]) == (code, None) and "unseen" not in record


def test_a_signal_that_nobody_asked_for_yet_is_seen(trainer: Trainer, tmp_path: Path) -> None:
    trainer.process.send_signal(signal.SIGKILL)
    record = watch(trainer, tmp_path / "attempt")
    assert (record["code"], record["signal"]) == (None, 9)


def test_a_code_that_the_parent_took_is_unknown_and_said_to_be(trainer: Trainer, tmp_path: Path) -> None:
    place = tmp_path / "attempt"
    records: List[Dict[str, Any]] = []
    watching = threading.Thread(target=lambda: records.append(watch(trainer, place)))
    watching.start()
    deadline = time.monotonic() + 60
    while not (place / "started.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    trainer.process.kill()
    trainer.process.wait()
    watching.join()
    (record,) = records
    if not record.get("unseen"):  # the watcher was quicker than the parent
        assert record["signal"] == 9
    else:
        assert (record["code"], record["signal"]) == (None, None)


def test_its_log_is_read_in_place_and_its_own_beginning_counts(trainer: Trainer, tmp_path: Path) -> None:
    trainer.end(0)
    trainer.process.wait()  # ended before it was watched
    watch(trainer, tmp_path / "attempt")
    assert (tmp_path / "attempt" / "log").read_text() == "up\n"
    assert (tmp_path / "attempt" / "log").is_symlink()
    started = read_json(str(tmp_path / "attempt" / "started.json")) or {}
    assert started["pid"] == trainer.process.pid and started["at"] <= (tmp_path / "exp" / "last.pt").stat().st_mtime + 1


def test_a_second_attempt_starts_nothing_and_fails(trainer: Trainer, tmp_path: Path) -> None:
    record = watch(trainer, tmp_path / "attempt", attempt=2)
    assert record["code"] == 69
    assert trainer.process.poll() is None, "the trainer itself is left alone"


def test_another_process_with_the_same_number_is_not_watched(trainer: Trainer, tmp_path: Path) -> None:
    trainer.adopted["started"] = "1"
    assert watch(trainer, tmp_path / "attempt")["unseen"] is True


def found(trainer: Trainer, young_s: float = 0.0) -> List[Dict[str, Any]]:
    """Find the trainer, without the processes above it: this test is Python too."""
    table = ProcessTable()
    for pid in table.above(trainer.process.pid):
        table.entries.pop(pid)
    return [one for one in candidates(table, young_s) if one["pid"] == trainer.process.pid]


def test_a_candidate_comes_with_its_log_open_files_and_weights_folder(trainer: Trainer, tmp_path: Path) -> None:
    (one,) = found(trainer)
    assert one["log"] == str(trainer.log) and one["cwd"] == str(tmp_path)
    assert one["outputs"] == [str(tmp_path / "exp" / "metrics.txt")]
    assert one["out"] == str(tmp_path / "exp")


def test_a_candidate_whose_folder_was_deleted_hides_no_other(trainer: Trainer, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    homeless = Trainer(gone)
    try:
        shutil.rmtree(gone)
        (one,) = found(homeless)
        assert one["cwd"] == f"{gone} (deleted)" and one["out"] == ""
        assert found(trainer) != []
    finally:
        homeless.process.kill()
        homeless.process.wait()


def test_what_has_just_begun_is_left_out(trainer: Trainer) -> None:
    assert found(trainer, 3600.0) == []


def test_a_trainer_of_ours_is_no_candidate(tmp_path: Path) -> None:
    ours = Trainer(tmp_path, **{MARK: "|tmp|run/main/1"})
    try:
        assert found(ours) == []
    finally:
        ours.process.kill()
        ours.process.wait()
