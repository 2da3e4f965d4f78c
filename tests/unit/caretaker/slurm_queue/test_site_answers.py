"""What Slurm's words mean: why tasks wait, how they ended, what the cluster offers, what was lent."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Dict, List

import pytest

from leasehold.caretaker.run.run_folder import CellFolder, RunFolder
from leasehold.caretaker.slurm import end_notice
from leasehold.caretaker.slurm_queue import allocation, site_resources
from leasehold.caretaker.slurm_queue.accounting import look_back
from leasehold.caretaker.slurm_queue.batch_script import seconds_of, walls
from leasehold.caretaker.slurm_queue.commands import SlurmRefused
from leasehold.caretaker.slurm_queue.explain import GONE, Ended, say_ended, say_waiting
from leasehold.caretaker.slurm_queue.gather import _lost, say_standing
from leasehold.caretaker.slurm_queue.states import Task, put_back_for, tasks
from leasehold.caretaker.slurm_queue.submit import Submission
from leasehold.kit.files import journal
from leasehold.kit.run.run_state import CellState, fold

_OFFERS = "main*|4|gpu:a100:4(S:0-1),gpu:v100:2|(null)|1-00:00:00\nbig|2|gpu:8|h100,ib|infinite\nshort|1|(null)|x|5:00"


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(str(tmp_path / "root" / "active" / "job-1"))
    os.makedirs(os.path.join(folder.path, "slurm"))
    return folder


@pytest.fixture
def site(tmp_path: Path, monkeypatch: Any) -> Any:
    """Give a function that puts a command of the cluster first on PATH."""
    monkeypatch.setenv("PATH", "%s:%s" % (tmp_path / "bin", os.environ["PATH"]))
    (tmp_path / "bin").mkdir()

    def has(name: str, answer: str, code: int = 0) -> None:
        path = tmp_path / "bin" / name
        path.write_text("#!/bin/sh\ncat <<'EOF'\n%s\nEOF\nexit %d\n" % (answer.rstrip("\n"), code))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return has


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("QOSMaxCpuPerUserLimit", "you have as many cores in use as the QOS allows you at once"),
        ("QOSGrpGRES", "the QOS has as many GPUs in use as it may"),
        ("AssocGrpCpuLimit", "your account has as many cores in use"),
        ("MaxGRESPerAccount", "your account has as many GPUs in use as it may"),
        ("AssocGrpCPUMinutesLimit", "used up its hours of cores"),
        ("AssocGrpGRESRunMinutes", "a shorter slurm.time helps"),
        ("AssocMaxWallDurationPerJobLimit", "will not start: lower slurm.time"),
        ("QOSMaxGRESPerJob", "lower resources.gpu.count"),
        ("QOSMaxMemoryPerJob", "lower slurm.mem"),
        ("QOSMinGRES", "fewer GPUs than the QOS demands"),
        ("QOSMaxSubmitJobPerUserLimit", "waiting jobs"),
        ("PartitionTimeLimit", "lower slurm.time"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "often for maintenance"),
        ("Nodes required for job are DOWN, DRAINED or reserved", "often for maintenance"),
        ("launch failed requeued held", "scontrol release"),
        ("DependencyNeverSatisfied", "will not start by itself"),
        ("BadConstraints", "will not start"),
        ("(JobHeldUser)", "scontrol release"),
        ("", "has not looked"),
    ],
)
def test_every_wait_has_a_plain_line(reason: str, says: str) -> None:
    assert says in say_waiting(reason)
    assert "Slurm says" not in say_waiting(reason)


def test_memory_is_asked_for_with_a_fifth_more_than_was_used() -> None:
    said = say_ended(Ended("OUT_OF_MEMORY", asked_mem="1000M", max_rss_bytes=900 << 20))
    assert said.startswith("Slurm ended it for memory")
    assert "(it asked for 1000M, it used at least 900MiB); raise slurm.mem to 1200MiB or more" in said


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        (Ended("CANCELLED", by="you"), "it was cancelled by you"),
        (Ended("NODE_FAIL", node="n7"), "its node failed (on n7)"),
        (Ended("FAILED", code=3, node="n1", said="module: not found"), "exit code 3 (on n1): module: not found"),
        (Ended("FAILED", signal=9, asked_mem="4G"), "killed by signal 9 (it asked for 4G); if it was memory"),
        (Ended(GONE), "keeps no accounts"),
    ],
)
def test_every_end_has_a_plain_line(ended: Ended, says: str) -> None:
    assert says in say_ended(ended)


@pytest.mark.parametrize("state", ["TIMEOUT", "NODE_FAIL", "PREEMPTED", GONE])
def test_an_interrupted_cell_waits_for_another_task(state: str) -> None:
    (event,) = _lost("a", CellState(), Ended(state))
    assert event["k"] == "cell_pending"
    assert "the same lease run starts it again" in event["why"]


@pytest.mark.parametrize("state", ["FAILED", "OUT_OF_MEMORY", "CANCELLED"])
def test_a_cell_that_would_end_the_same_way_has_failed(state: str) -> None:
    (event,) = _lost("a", CellState(), Ended(state))
    assert event["k"] == "cell_failed"


def test_the_accounts_tell_code_memory_node_and_who_cancelled(run: RunFolder, site: Any) -> None:
    me = os.getuid()
    site("sacct", "7_0|CANCELLED by %d|0:15|61||2000M|n3\n7_0.batch|CANCELLED|0:15|61|1536K||n3" % me)
    found = look_back(run, [Task("a", "7", 0, "CANCELLED", "")])
    assert found["a"] == Ended("CANCELLED", 0, 15, "n3", 61, "2000M", 1536 << 10, "you", "")


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ("7_0|RUNNING|0:0|60||2000M|n3", 0),
        ("", 0),
        ("sacct: error: Problem talking to the database: Connection refused", 1),
    ],
    ids=["an end not heard of", "a task not heard of", "a silent keeper"],
)
def test_accounts_that_lag_behind_are_asked_again(
    run: RunFolder, site: Any, tmp_path: Path, first: str, code: int
) -> None:
    site("sacct", "7_0|CANCELLED by %d|0:15|61||2000M|n3" % os.getuid())
    path, asked = tmp_path / "bin" / "sacct", tmp_path / "asked"
    lags = "[ -e %s ] || { : > %s; echo '%s' >&%d; exit %d; }\n" % (asked, asked, first, code + 1, code)
    path.write_text(path.read_text().replace("#!/bin/sh\n", "#!/bin/sh\n" + lags))
    assert look_back(run, [Task("a", "7", 0, "CANCELLED", "")])["a"].by == "you"


def test_without_accounts_the_controller_is_asked(run: RunFolder, site: Any) -> None:
    site("sacct", "Slurm accounting storage is disabled", 1)
    site("scontrol", "JobId=7 ArrayJobId=7 ArrayTaskId=0 JobState=FAILED ExitCode=3:0 NodeList=n2 MinMemoryNode=100M")
    (Path(run.path) / "slurm" / "7_0.out").write_text("one\nlast words\nslurmstepd: error: gone\n")
    found = look_back(run, [Task("a", "7", 0, "FAILED", "")])["a"]
    assert (found.code, found.node, found.asked_mem, found.said) == (3, "n2", "100M", "last words")


def test_a_cancelled_sweep_is_asked_about_array_by_array(run: RunFolder, site: Any, tmp_path: Path) -> None:
    site("sacct", "Slurm accounting storage is disabled", 1)
    site(
        "scontrol",
        "JobId=7 ArrayJobId=7 ArrayTaskId=1-999%4 ExitCode=0:0 NodeList=(null)\n"
        "JobId=8 ArrayJobId=7 ArrayTaskId=0 ExitCode=0:15 NodeList=n2",
    )
    for name in ("sacct", "scontrol"):
        path = tmp_path / "bin" / name
        path.write_text(
            path.read_text().replace("#!/bin/sh\n", "#!/bin/sh\necho %s $* >> %s/asked\n" % (name, tmp_path))
        )
    found = look_back(run, [Task("c%d" % place, "7", place, "CANCELLED", "") for place in range(1000)])
    assert len((tmp_path / "asked").read_text().splitlines()) == 2
    assert (found["c0"].signal, found["c0"].node) == (15, "n2")
    assert {found["c%d" % place] for place in range(1, 1000)} == {Ended("CANCELLED")}


def test_the_accounts_tell_tasks_of_one_array_apart(run: RunFolder, site: Any) -> None:
    site("sacct", "7_[1-2%2]|CANCELLED by 1|0:0|0||1G|\n7_0|FAILED|3:0|9||1G|n1\n7_0.batch|FAILED|3:0|9|2M||n1")
    asked = [Task("a", "7", 0, "FAILED", ""), Task("b", "7", 1, "CANCELLED", ""), Task("c", "7", 2, "CANCELLED", "")]
    found = look_back(run, asked)
    assert (found["a"].code, found["a"].max_rss_bytes, found["a"].by) == (3, 2 << 20, "")
    assert found["b"] == found["c"]
    assert (found["b"].state, found["b"].code, found["b"].by != "") == ("CANCELLED", 0, True)


def test_a_task_that_nobody_remembers_keeps_the_state_it_was_seen_in(run: RunFolder, site: Any) -> None:
    site("sacct", "Slurm accounting storage is disabled", 1)
    site("scontrol", "slurm_load_jobs error: Invalid job id specified", 1)
    assert look_back(run, [Task("a", "7", 0, "TIMEOUT", "")]) == {"a": Ended("TIMEOUT")}


def test_a_task_that_was_put_back_says_what_ended_it(run: RunFolder) -> None:
    path = Path(run.path) / "slurm" / "7_0.out"
    assert put_back_for(run, "7", 0) == ""
    path.write_text("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-15T13:00:00 DUE TO PREEMPTION ***\n")
    assert put_back_for(run, "7", 0) == "PREEMPTED"
    path.write_text(path.read_text() + "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-15T14:00:00 ***\n")
    assert put_back_for(run, "7", 0) == ""


def test_a_task_that_controller_and_accounts_do_not_know_has_ended(run: RunFolder, site: Any) -> None:
    site("squeue", "")
    site("sacct", "Slurm accounting storage is disabled", 1)
    assert tasks(run, [Submission(1, "t", ["a"], "7")])["a"].state == GONE


def test_an_array_that_was_cancelled_before_it_began_is_one_line(run: RunFolder, site: Any) -> None:
    site("squeue", "7|N/A|CANCELLED|JobHeldUser")
    found = tasks(run, [Submission(1, "t", ["a", "b"], "7")])
    assert [found[name].state for name in ("a", "b")] == ["CANCELLED", "CANCELLED"]


def test_ranges_of_the_accounts_are_told_apart(run: RunFolder, site: Any) -> None:
    site("squeue", "")
    site("sacct", "7_[0-1%2]|CANCELLED by 0\n7_2|COMPLETED\n7_2.batch|COMPLETED")
    found = tasks(run, [Submission(1, "t", ["a", "b", "c"], "7")])
    assert [found[name].state for name in ("a", "b", "c")] == ["CANCELLED", "CANCELLED", "COMPLETED"]


def test_a_wall_asked_for_ahead_does_not_hide_the_task_that_runs(run: RunFolder, site: Any) -> None:
    site("squeue", "7|0|RUNNING|None\n8|0|PENDING|Dependency")
    known = [Submission(1, "t", ["a"], "7"), Submission(2, "u", ["a"], "8")]
    assert tasks(run, known)["a"].name == "7_0"


def test_what_we_withdrew_ourselves_is_no_news(run: RunFolder, site: Any) -> None:
    site("squeue", "7|0|CANCELLED|None")
    assert tasks(run, [Submission(1, "t", ["a"], "7", withdrawn=True)]) == {}


def test_a_card_is_chosen_by_part_of_its_name(site: Any) -> None:
    site("sinfo", _OFFERS)
    assert site_resources.settle({"gpu_name": "A100", "gpu_count": 2, "gres": "gpu:2"})["gres"] == "gpu:a100:2"
    assert site_resources.settle({"gpu_name": "NVIDIA V100", "gpu_count": 1})["gres"] == "gpu:v100:1"


def test_where_cards_have_no_type_a_feature_of_the_node_decides(site: Any) -> None:
    site("sinfo", _OFFERS)
    wishes = {"gpu_name": "H100", "gpu_count": 8, "gres": "gpu:8", "partition": "big", "constraint": "ib"}
    found = site_resources.settle(wishes)
    assert (found["gres"], found["constraint"]) == ("gpu:8", "ib&h100")


@pytest.mark.parametrize(
    ("wishes", "says"),
    [
        ({"gpu_name": "B200"}, "main has gpu:a100, 4 on each of 4 nodes; main has gpu:v100, 2"),
        ({"gpu_name": "A100", "gpu_count": 5}, "it asks for 5 cards a100 on one node"),
        ({"gpu_name": "A100", "partition": "short"}, "the partition has no cards"),
        ({"time": "0-00:06:00", "partition": "short"}, "slurm.time asks for 6 min, and short allows 5"),
    ],
)
def test_what_the_cluster_cannot_give_is_refused_with_what_it_can(site: Any, wishes: Dict[str, Any], says: str) -> None:
    site("sinfo", _OFFERS)
    with pytest.raises(SlurmRefused, match=says.replace(".", r"\.")):
        site_resources.settle(wishes)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5:00", 300), ("90", 5400), ("1:00:00", 3600), ("2-03", 183600), ("1-00:30", 88200), ("infinite", None)],
)
def test_times_are_read_as_slurm_spells_them(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds


def test_the_task_is_told_its_lead_and_its_wall() -> None:
    assert walls({"time": "0-01:00:00", "write_s": 100}) == ["210", "3600"]
    assert walls({}) == ["90", "0"]


def _lent(cell: str, at: float, task: str, **more: Any) -> Dict[str, Any]:
    return {"k": "task_lent", "cell": cell, "at": at, "task": task, "cores": 4, "cards": 2, "node": "n1", **more}


def test_what_was_lent_counts_until_its_last_word_or_until_now() -> None:
    events: List[Dict[str, Any]] = [
        _lent("a", 100.0, "7_0", origin=["a", 1]),
        {"k": "attempt_ended", "cell": "a", "at": 160.0, "origin": ["a", 5]},
        _lent("a", 500.0, "9_0", origin=["a", 6]),
    ]
    found = allocation.loans(events, {"a": "9_0"})
    assert allocation.used(found, 600.0) == {"core_s": 4 * 160.0, "card_s": 2 * 160.0}
    assert allocation.say_now(found) == "on n1: 4 cores, 2 GPUs"
    assert allocation.say_now(allocation.loans(events, {})) == ""


def test_the_allocation_is_read_from_what_slurm_sets() -> None:
    environ = {"SLURM_CPUS_ON_NODE": "8", "SLURM_JOB_GPUS": "0,3", "SLURMD_NODENAME": "n2", "SLURM_ARRAY_JOB_ID": "7"}
    found = allocation.lent({**environ, "SLURM_ARRAY_TASK_ID": "4"})
    assert (found["cores"], found["cards"], found["node"], found["task"]) == (8, 2, "n2", "7_4")


def test_how_a_run_stands_is_one_line() -> None:
    run = fold(
        [
            {"k": "run_opened", "n": 1, "cells": ["a", "b", "c"]},
            {"k": "attempt_starting", "n": 2, "cell": "a", "attempt": 1},
            {"k": "tasks_seen", "n": 3, "tasks": {"b": "7_1", "c": "7_2"}, "state": "PENDING", "why": "it is next"},
        ]
    )
    assert say_standing(run, "on n1: 4 cores", "") == (
        "1 of 3 cells run on n1: 4 cores; 2 of 3 cells wait in Slurm's queue: it is next"
    )
    assert "could not be asked: down" in say_standing(run, "", "down")


def test_only_the_last_cell_closes_the_run(run: RunFolder, site: Any) -> None:
    site("squeue", "")
    book = journal.Journal(run.journal)
    book.append("run_opened", cells=["a", "b"], plan_sha256="x")
    book.close()
    end_notice.expect_cells(run, 2)
    for name in ("a", "b"):
        own = journal.Journal(_cell_journal(run, name))
        own.append("cell_finished", cell=name, attempt=1)
        own.close()
        end_notice.end_cell(run, name, None)
        closed = fold(journal.read_from(run.journal, 0)[0]).terminal
        assert closed == (name == "b")


def _cell_journal(run: RunFolder, name: str) -> str:
    folder = CellFolder(run.path, name)
    os.makedirs(folder.address)
    return folder.journal
