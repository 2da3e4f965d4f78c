"""What is asked of Slurm and what its answers mean, without a cluster."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from leasehold.caretaker.run.run_folder import CellFolder, RunFolder, folder_at
from leasehold.caretaker.slurm_queue import batch_script
from leasehold.caretaker.slurm_queue.commands import SlurmDown, SlurmRefused, ask
from leasehold.caretaker.slurm_queue.explain import Ended, say_ended, say_waiting
from leasehold.caretaker.slurm_queue.states import tasks
from leasehold.caretaker.slurm_queue.submit import Order, Submission, submissions, submit


def _fake(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(str(tmp_path / "root" / "active" / "job-1"))
    os.makedirs(folder.path)
    return folder


@pytest.fixture
def bin_first(tmp_path: Path, monkeypatch: Any) -> Path:
    monkeypatch.setenv("PATH", "%s:%s" % (tmp_path / "bin", os.environ["PATH"]))
    return tmp_path / "bin"


def test_the_array_has_a_place_for_every_cell_and_the_limit(run: RunFolder) -> None:
    assert "--array=0-9%4" in batch_script.options(run, {"at_once": 4}, 10, "tag")
    assert "--array=0-9" in batch_script.options(run, {"at_once": 10}, 10, "tag")


def test_the_early_signal_leaves_time_to_write_and_for_slurms_jitter(run: RunFolder) -> None:
    assert batch_script.lead_s({}) >= 60 + 30
    assert batch_script.lead_s({"write_s": 100}) >= 100 + 60
    assert "--signal=B:TERM@210" in batch_script.options(run, {"write_s": 100}, 1, "tag")


def test_a_folder_with_a_percent_sign_is_no_pattern(tmp_path: Path) -> None:
    found = batch_script.options(RunFolder(str(tmp_path / "100%A")), {}, 1, "tag")
    assert any("100%%A" in word for word in found)


def test_modules_are_quoted_and_srun_gets_what_sbatch_was_given(run: RunFolder) -> None:
    text = batch_script.script(run, {"modules": ["cuda/12 x"], "gres": "gpu:1"}, ["python", "/a b", "task"])
    assert "module load 'cuda/12 x'" in text
    assert "SRUN_CPUS_PER_TASK" in text
    assert "exec python '/a b' task" in text


def test_a_submission_is_written_down_before_it_is_asked_for(run: RunFolder, bin_first: Path) -> None:
    _fake(bin_first, "squeue", "exit 0\n")
    _fake(bin_first, "sbatch", "exit 1\n")
    with pytest.raises(SlurmRefused):
        submit(run, Order(["a", "b"], {}))
    (meant,) = submissions(run)
    assert (meant.cells, meant.job) == (["a", "b"], "")


def test_a_lost_answer_is_found_by_its_tag_and_not_asked_again(run: RunFolder, bin_first: Path, tmp_path: Path) -> None:
    _fake(bin_first, "squeue", "exit 0\n")
    _fake(bin_first, "sbatch", "exit 1\n")
    with pytest.raises(SlurmRefused):
        submit(run, Order(["a"], {}))
    (meant,) = submissions(run)
    _fake(bin_first, "squeue", "echo '41|somebody'; echo '42|%s'\n" % meant.tag)
    _fake(bin_first, "sbatch", "touch %s; echo 43\n" % (tmp_path / "asked"))
    from leasehold.caretaker.slurm_queue.submit import carry_out

    assert carry_out(run, meant).job == "42"
    assert not (tmp_path / "asked").exists()


def test_a_silent_controller_is_unknown_and_never_an_empty_queue(run: RunFolder, bin_first: Path) -> None:
    _fake(bin_first, "squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1\n")
    with pytest.raises(SlurmDown):
        tasks(run, [Submission(1, "t", ["a"], "7")])


def test_a_machine_without_slurm_is_said_to_be_one(bin_first: Path) -> None:
    with pytest.raises(SlurmRefused, match="login node"):
        ask(["no-such-slurm-command"])


def test_the_newest_task_of_a_cell_counts_and_foreign_ones_do_not(run: RunFolder, bin_first: Path) -> None:
    _fake(
        bin_first,
        "squeue",
        "printf '7|0|FAILED|None\\n9|0|RUNNING|None\\n8|0|PENDING|Priority\\n7|1|TIMEOUT|None\\n'\n",
    )
    found = tasks(run, [Submission(1, "t", ["a", "b"], "7"), Submission(2, "u", ["a"], "9")])
    assert (found["a"].state, found["a"].name) == ("RUNNING", "9_0")
    assert found["b"].state == "TIMEOUT"


def test_what_the_controller_forgot_comes_from_the_accounts(run: RunFolder, bin_first: Path) -> None:
    _fake(bin_first, "squeue", "exit 0\n")
    _fake(bin_first, "sacct", "printf '7_0|OUT_OF_MEMORY\\n7_0.batch|X\\n'\n")
    assert tasks(run, [Submission(1, "t", ["a"], "7")])["a"].state == "OUT_OF_MEMORY"


@pytest.mark.parametrize(
    "reason", ["Priority", "(Resources)", "AssocGrpGRES", "ReqNodeNotAvail, UnavailableNodes:n1", ""]
)
def test_a_waiting_reason_is_said_in_words(reason: str) -> None:
    assert say_waiting(reason)
    assert "Slurm says" not in say_waiting(reason)


def test_an_unknown_word_of_slurm_is_passed_on() -> None:
    assert "NewReason" in say_waiting("NewReason")
    assert "ODD" in say_ended(Ended("ODD"))


def test_a_cell_apart_has_its_own_journal_and_the_runs_outputs(run: RunFolder) -> None:
    cell = CellFolder(run.path, "a")
    assert cell.journal != run.journal
    assert cell.out("a") == run.out("a")
    assert cell.stop == run.stop  # one wish ends them all
    again = folder_at(cell.address)
    assert isinstance(again, CellFolder)
    assert again.journal == cell.journal
