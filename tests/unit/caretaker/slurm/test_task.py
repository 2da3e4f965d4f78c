"""The life of a task, run as Slurm runs it: what a short cell leaves, and what a longer one has beside it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.slurm.end_notice import expect_cells
from leasehold.caretaker.slurm_queue.plan_slices import write_shares
from leasehold.kit.files.atomic import write_json

_SOURCES = str(Path(__file__).resolve().parents[4] / "src")
_RUN = "import sys; from leasehold.caretaker.entry import main; sys.exit(main(sys.argv[1:]))"
# However slow the machine is, a short cell stays one.
_SHORT = (
    "import sys; from leasehold.kit.startup.typing_stub import unhinted\n"
    "with unhinted():\n    from leasehold.caretaker.slurm import task\n"
    "task._SETTLED_AFTER_S = 600.0\n"
)
_WELL = 'printf \'{"x": %s}\' "$LEASE_PARAM_x" > "$LEASE_OUT/result.json"'


_BARE = "import sys; sys.path.insert(0, sys.argv.pop(1))\n" + _SHORT + _RUN


def _life(folder: Path, command: str, python: "Tuple[str, ...]" = ("-c", _RUN)) -> "Life":
    run = RunFolder(str(folder / "root" / "active" / "job-1"))
    os.makedirs(os.path.join(run.path, "slurm"))
    os.makedirs(run.work("a"))  # a copy of the code is there already
    cells = [{"name": "a", "params": {"x": 7}}, {"name": "b", "params": {"x": 8}}]
    job = {"run": command, "cells": cells}
    plan = {"cells": ["a", "b"], "job": job, "patterns": ["result.json"], "attempts": 1, "plan_sha256": "0" * 64}
    write_json(run.plan, plan)
    write_shares(run, 1, ["a", "b"], {})
    expect_cells(run, 2)
    environ = dict(os.environ, PYTHONPATH=_SOURCES, SLURM_ARRAY_TASK_ID="0")
    argv = [sys.executable, *python, "task", run.path, "1"]
    done = subprocess.run(argv, env=environ, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60, check=False)
    return Life(run, done.returncode, done.stderr.decode())


class Life:
    """A task that has ended, and what lies in its cell's folder."""

    def __init__(self, run: RunFolder, code: int, said: str) -> None:
        self.run = run
        self.code = code
        self.said = said
        self.place = Path(run.cell("a"))

    def kinds(self) -> List[str]:
        lines = (self.place / "journal.jsonl").read_text().splitlines()
        return [str(json.loads(line)["k"]) for line in lines]

    def exited(self) -> Dict[str, Any]:
        return dict(json.loads((self.place / "attempt-0001" / "exit.json").read_text()))


def test_a_short_cell_leaves_only_its_journal_its_records_and_its_results(tmp_path: Path) -> None:
    life = _life(tmp_path, _WELL, ("-c", _SHORT + _RUN))
    assert life.code == 0
    assert life.kinds()[-3:] == ["cell_sealed", "cell_finished", "run_finished"]
    assert (Path(life.run.out("a")) / "result.json").read_text() == '{"x": 7}'
    found = {path.name for path in life.place.iterdir()}
    assert found == {"attempt-0001", "caretaker.lock", "journal.jsonl", "lock", "plan.json", "sealed.json"}


def test_a_short_cell_that_prints_nan_raises_its_alarm_before_its_end(tmp_path: Path) -> None:
    life = _life(tmp_path, "echo step 1 loss nan; echo step 2 loss nan; " + _WELL, ("-c", _SHORT + _RUN))
    kinds = life.kinds()
    assert life.code == 0 and kinds.index("alarm_raised") < kinds.index("stage_passed")


@pytest.mark.skipif(platform.python_implementation() != "CPython", reason="only CPython tells what it imports")
def test_a_short_cell_loads_nothing_that_only_longer_ones_need(tmp_path: Path) -> None:
    life = _life(tmp_path, _WELL, ("-I", "-S", "-X", "importtime", "-c", _BARE, _SOURCES))
    assert life.code == 0
    loaded = {line.rpartition("|")[2].strip() for line in life.said.splitlines()}
    assert "leasehold.caretaker.artifacts.seal" in loaded
    heavy = {"typing", "subprocess", "hashlib", "shutil", "math", "leasehold.caretaker.monitor.patrol"}
    assert heavy & loaded == set()


def test_a_cell_that_lives_longer_has_a_status_readings_and_a_handbook(tmp_path: Path) -> None:
    place = RunFolder(str(tmp_path / "root" / "active" / "job-1")).cell("a")
    waits = "n=0; until [ -e '%s/HANDBOOK.md' ] || [ $n -ge 400 ]; do n=$((n + 1)); sleep 0.1; done; " % place
    life = _life(tmp_path, waits + _WELL)
    assert life.code == 0
    assert {"status.json", "readings", "HANDBOOK.md"} <= {path.name for path in life.place.iterdir()}
    assert json.loads((life.place / "status.json").read_text())["state"] == "finished"


def test_what_a_trainer_left_running_is_ended_before_its_results_are_read(tmp_path: Path) -> None:
    life = _life(tmp_path, "sleep 300 & " + _WELL)
    assert life.code == 0
    assert life.exited()["leftovers"] == 1
    assert life.exited()["code"] == 0


def test_a_cell_that_fails_is_judged_and_told_to_slurm(tmp_path: Path) -> None:
    life = _life(tmp_path, "exit 5")
    assert life.code == 1
    assert life.exited()["code"] == 5
    assert life.kinds()[-3:] == ["remedy_chosen", "cell_failed", "run_failed"]


def test_exit_code_0_without_the_promised_result_is_a_failure(tmp_path: Path) -> None:
    life = _life(tmp_path, "true")
    assert life.code == 1
    assert "failure_classed" in life.kinds()
    assert not os.path.exists(life.run.sealed("a"))


def test_a_task_of_a_cell_that_has_finished_does_nothing(tmp_path: Path) -> None:
    life = _life(tmp_path, _WELL)
    before = life.kinds()
    environ = dict(os.environ, PYTHONPATH=_SOURCES, SLURM_ARRAY_TASK_ID="0")
    argv = [sys.executable, "-c", _RUN, "task", life.run.path, "1"]
    assert subprocess.run(argv, env=environ, timeout=60, check=False).returncode == 0
    assert life.kinds() == before
