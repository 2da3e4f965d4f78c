"""How a task goes on when its time is up: put back, handed on once, or neither."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, List

import pytest

from leasehold.caretaker.attempt import container
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.slurm import requeue
from leasehold.caretaker.slurm_queue.submit import Order, submissions, submit, write
from leasehold.caretaker.slurm_queue.uses_slurm import EX_TEMPFAIL

_ENVIRON = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "0"}
_NO_REQUEUE = 'case "$*" in *requeue*) echo "7_0: Requested operation is presently disabled" >&2; exit 1;; esac\n'


class Cluster:
    """Commands of a cluster that write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.calls = folder / "calls"
        self.bin.mkdir()
        self.calls.touch()
        self.has("squeue", "")
        self.has("sbatch", 'n=$(grep -c ^sbatch "%s"); echo $((6 + n))\n' % self.calls)
        self.has("scontrol", _NO_REQUEUE + "echo JobState=RUNNING Reason=None\n")

    def has(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text('#!/bin/sh\necho "%s $*" >> "%s"\n%s' % (name, self.calls, text))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def called(self, name: str) -> List[str]:
        return [line for line in self.calls.read_text().splitlines() if line.startswith(name + " ")]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: Any) -> Cluster:
    found = Cluster(tmp_path)
    monkeypatch.setenv("PATH", "%s:%s" % (found.bin, os.environ["PATH"]))
    return found


@pytest.fixture
def run(tmp_path: Path, cluster: Cluster) -> RunFolder:
    folder = RunFolder(str(tmp_path / "root" / "active" / "job-1"))
    os.makedirs(folder.path)
    submit(folder, Order(["a", "b"], {"time": "0-01:00:00"}))
    return folder


def test_where_requeue_is_refused_the_rest_is_submitted_after_this_task(run: RunFolder, cluster: Cluster) -> None:
    assert requeue.go_on(run, 1, "a", _ENVIRON) == 0
    _, handed = submissions(run)
    assert (handed.cells, handed.after, handed.by, handed.job) == (["a"], "afterany:7_0", "task", "8")
    assert "--dependency=afterany:7_0" in cluster.called("sbatch")[-1]


def test_what_is_handed_on_already_is_not_handed_on_again(run: RunFolder, cluster: Cluster) -> None:
    assert requeue.go_on(run, 1, "a", _ENVIRON) == 0
    assert requeue.go_on(run, 1, "a", _ENVIRON) == 0
    assert len(cluster.called("sbatch")) == 2


def test_a_handing_that_was_cut_off_before_its_answer_is_found_by_its_tag(run: RunFolder, cluster: Cluster) -> None:
    requeue.go_on(run, 1, "a", _ENVIRON)
    _, handed = submissions(run)
    write(run, handed._replace(job=""))
    cluster.has("squeue", "echo '8|%s'\n" % handed.tag)
    assert requeue.go_on(run, 1, "a", _ENVIRON) == 0
    assert submissions(run)[-1].job == "8"
    assert len(cluster.called("sbatch")) == 2


def test_a_task_that_somebody_cancels_does_not_go_on(run: RunFolder, cluster: Cluster) -> None:
    cluster.has("scontrol", "echo JobState=COMPLETING Reason=None\n")
    assert requeue.go_on(run, 1, "a", _ENVIRON) == 0
    assert not any("requeue" in call for call in cluster.called("scontrol"))
    assert len(submissions(run)) == 1


def test_a_task_whose_wall_is_up_goes_on_though_slurm_ends_it(run: RunFolder, cluster: Cluster) -> None:
    cluster.has("scontrol", _NO_REQUEUE + "echo JobState=COMPLETING Reason=TimeLimit\n")
    requeue.go_on(run, 1, "a", _ENVIRON)
    assert len(submissions(run)) == 2


def test_a_task_that_a_better_job_displaced_goes_on_though_slurm_ends_it(run: RunFolder, cluster: Cluster) -> None:
    cluster.has("scontrol", _NO_REQUEUE + "echo JobState=COMPLETING Reason=None\n")
    said = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-15T13:00:00 DUE TO PREEMPTION ***\n"
    (Path(run.path) / "slurm" / "7_0.out").write_text(said)
    requeue.go_on(run, 1, "a", _ENVIRON)
    assert len(submissions(run)) == 2


def test_a_run_that_is_to_stop_is_not_handed_on(run: RunFolder, cluster: Cluster) -> None:
    Path(run.stop).write_text("{}")
    assert requeue.go_on(run, 1, "a", _ENVIRON) == EX_TEMPFAIL
    assert len(submissions(run)) == 1


def test_handing_on_has_an_end(run: RunFolder, cluster: Cluster, monkeypatch: Any) -> None:
    monkeypatch.setattr(requeue, "MOST_HANDINGS", 1)
    assert requeue.go_on(run, 1, "a", _ENVIRON) == 0
    assert requeue.go_on(run, 2, "a", _ENVIRON) == EX_TEMPFAIL


def test_whoever_waits_for_this_task_waits_for_its_rest_too(run: RunFolder, cluster: Cluster) -> None:
    other = RunFolder(os.path.join(os.path.dirname(run.path), "next-1"))
    os.makedirs(other.path)
    submit(other, Order(["main"], {}, "afterok:7"))
    requeue.go_on(run, 1, "a", _ENVIRON)
    assert any("JobId=8 Dependency=afterok:7,afterok:9" in call for call in cluster.called("scontrol"))
    assert submissions(other)[0].after == "afterok:7,afterok:9"


def test_whoever_waits_for_a_single_cell_waits_for_its_rest_instead(run: RunFolder, cluster: Cluster) -> None:
    alone, other = (RunFolder(os.path.join(os.path.dirname(run.path), name)) for name in ("alone-1", "next-1"))
    os.makedirs(alone.path)
    os.makedirs(other.path)
    first = submit(alone, Order(["main"], {}))
    submit(other, Order(["main"], {}, "afterok:" + first.job))
    requeue.go_on(alone, 1, "main", dict(_ENVIRON, SLURM_ARRAY_JOB_ID=first.job))
    assert submissions(other)[0].after == "afterok:" + submissions(alone)[1].job


def test_an_image_gets_our_folders_and_the_jobs_own_flags(run: RunFolder, cluster: Cluster) -> None:
    cluster.has("singularity", "")
    plan = {"slurm": {"image": "/i.sif", "gres": "gpu:1", "image_flags": ["--cleanenv"]}, "job": {}}
    argv = container.in_image(run, plan, "a", "python train.py")
    assert argv[:4] == [str(cluster.bin / "singularity"), "exec", "--nv", "--bind"]
    assert argv[-5:] == ["--cleanenv", "/i.sif", "/bin/sh", "-c", "python train.py"]
    assert run.root in argv


def test_a_node_without_an_image_runtime_is_said_to_be_one(run: RunFolder, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FileNotFoundError, match="neither apptainer nor singularity"):
        container.in_image(run, {"slurm": {"image": "/i.sif"}, "job": {}}, "a", "true")


def test_an_older_record_of_a_submission_is_still_read(run: RunFolder) -> None:
    path = Path(run.path) / "slurm" / "submission-0001.json"
    path.write_text(json.dumps({"tag": "t", "cells": ["a"], "job": "5"}))
    (found,) = submissions(run)
    assert (found.job, found.wishes, found.by, found.withdrawn) == ("5", {}, "home", False)
