"""Sweeps on a real Slurm cluster: a task array whose cells survive everything the cluster does to them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.front import Front, front, program
from tests.support.screens import Session
from tests.support.slurm_bed import SlurmCluster

pytestmark = pytest.mark.slurm

# Counts steps, saves every fifth and when told to leave; a second start goes on where the file says.
# With a GATE it stands still after its tenth step until that file is there: nothing depends on how fast things are.
_TRAIN = """
import json, os, signal, sys, time
out, steps, told = os.environ["LEASE_OUT"], int(os.environ["STEPS"]), []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
saved = os.path.join(out, "state.json")
params = json.loads(os.environ["LEASE_PARAMS"])
step = json.load(open(saved))["step"] if os.path.exists(saved) else 0
def save():
    with open(saved + ".new", "w") as file:
        json.dump({"step": step}, file)
    os.replace(saved + ".new", saved)
print("cell", os.environ["LEASE_CELL"], "from step", step, flush=True)
while step < steps:
    step += 1
    time.sleep(0.1)
    with open(os.path.join(out, "steps.txt"), "a") as file:
        file.write("%d\\n" % step)
    while step == min(10, steps) and not told and not os.path.exists(os.environ.get("GATE", out)):
        time.sleep(0.1)
    if told or step % 5 == 0:
        save()
    if told:
        sys.exit(143)
card = os.environ.get("CUDA_VISIBLE_DEVICES")
found = {"loss": params["lr"] * 2, "card": card, "host": os.environ["SLURMD_NODENAME"]}
json.dump(found, open(os.path.join(out, "metrics.json"), "w"))
"""


@pytest.fixture
def person(tmp_path: Path, slurm: SlurmCluster) -> Iterator[Front]:
    """Give somebody on a login node of the cluster, with its box in the book."""
    with front(tmp_path / "person", slurm.environ) as someone:
        someone.write("train.py", _TRAIN)
        root = tmp_path / "shared fs"
        done = someone.lease("box", "add", "cluster", "local", "--platform", "slurm", "--root", str(root))
        assert done.code == 0, done.said
        yield someone


def _job(person: Front, cells: object, steps: int = 3, **change: object) -> None:
    job = {
        "name": "sweep", "run": "python3 -I -S train.py", "cells": cells, "env": {"STEPS": steps},
        "artifacts": ["metrics.json", "steps.txt"], "checkpoint": {"path": "state.json"},
    }  # fmt: skip
    person.job(**{**job, **change})


def _export(person: Front) -> Path:
    (found,) = (person.project / "lease-results" / "export").glob("sweep-*")
    return found


def _steps(person: Front, cell: str) -> list[int]:
    return [int(word) for word in (_export(person) / "cells" / cell / "steps.txt").read_text().split()]


def _until(true: Callable[[], object], what: str, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def _running(slurm: SlurmCluster) -> dict[str, str]:
    """Say on which node each running task of ours is."""
    lines = slurm.run("squeue", "-h", "-r", "-t", "R", "-o", "%K %N").splitlines()
    return {line.split()[0]: line.split()[1] for line in lines}


def _begin(person: Front, slurm: SlurmCluster, count: int) -> None:
    done = person.lease("run", "--on", "cluster", "--detach")
    assert done.code == 0, done.said
    _until(lambda: len(_running(slurm)) == count, "the tasks did not start")


def test_every_array_cell_comes_home_verified_and_has_its_own_card(
    person: Front, slurm: SlurmCluster, tmp_path: Path
) -> None:
    env = {"STEPS": 3, "GATE": str(tmp_path / "gate")}
    _job(person, {"grid": {"lr": [0.1, 0.2]}, "seeds": 2}, resources={"gpu": {"count": 1}}, env=env)
    _begin(person, slurm, 4)  # all at once: a card that was given back may be given to the next
    (tmp_path / "gate").touch()
    done = person.lease("run", "--on", "cluster")
    assert done.code == 0, done.said
    found = {path.parent.name: json.loads(path.read_text()) for path in _export(person).glob("cells/*/metrics.json")}
    assert sorted(found) == ["lr-0.1_seed-0", "lr-0.1_seed-1", "lr-0.2_seed-0", "lr-0.2_seed-1"]
    assert len({(one["host"], one["card"]) for one in found.values()}) == 4
    assert person.lease("sweep", "reconcile", "sweep").code == 0
    table = json.loads(person.lease("sweep", "table", "sweep", "--metric", "loss:min", "--json").out)
    assert table["best"][0]["params"] == {"lr": 0.1}
    assert [one["metrics"]["loss"]["n"] for one in table["settings"]] == [2, 2]


@pytest.mark.full
def test_no_cell_is_lost_whatever_the_cluster_does_to_it(person: Front, slurm: SlurmCluster, tmp_path: Path) -> None:
    cells = [{"name": f"lr-{lr}", "lr": lr} for lr in (1, 2, 3, 4)]
    env = {"STEPS": 40, "GATE": str(tmp_path / "gate")}
    _job(person, cells, env=env, slurm={"cpus": 8, "time": "1h"})
    _begin(person, slurm, 4)
    _until(lambda: len(list(_out(person).glob("*/state.json"))) == 4, "no cell saved a first state")
    nodes = _running(slurm)
    slurm.run("scontrol", "requeue", f"{_array(person)}_0")
    slurm.run("scancel", "--signal=TERM", "--batch", f"{_array(person)}_1")
    slurm.run("scontrol", "update", f"JobId={_array(person)}_2", "EndTime=now+2")
    slurm.run("scontrol", "update", f"NodeName={nodes['3']}", "State=DOWN", "Reason=test")
    slurm.run("scontrol", "update", f"NodeName={nodes['3']}", "State=RESUME")
    again = [_out(person).parent / "cells" / f"lr-{lr}" / "attempt-0002" for lr in (1, 2, 3, 4)]
    _until(lambda: all(path.exists() for path in again), "a cell was not started again", within_s=500.0)
    (tmp_path / "gate").touch()  # a wall is looked for every half minute: none may be through before
    _until(lambda: len(list(_out(person).glob("*/metrics.json"))) == 4, "a cell was lost", within_s=120.0)
    done = person.lease("run", "--on", "cluster")
    assert done.code == 0, done.said
    for cell in ("lr-1", "lr-2", "lr-3", "lr-4"):
        assert _steps(person, cell)[-1] == 40
        assert set(_steps(person, cell)) == set(range(1, 41))
        assert len(list((_out(person).parent / "cells" / cell).glob("attempt-*"))) >= 2


@pytest.mark.full
def test_a_preempted_array_continues_after_the_urgent_job(person: Front, slurm: SlurmCluster, tmp_path: Path) -> None:
    _job(person, {"grid": {"lr": [1, 2]}}, env={"STEPS": 30, "GATE": str(tmp_path / "gate")})
    _begin(person, slurm, 2)
    _until(lambda: len(list(_out(person).glob("*/state.json"))) == 2, "no cell saved a first state")
    slurm.run("sbatch", "-p", "urgent", "--exclusive", "-N4", "-o", "/dev/null", "--wrap", "sleep 1")
    again = [_out(person).parent / "cells" / cell / "attempt-0002" for cell in ("lr-1", "lr-2")]
    _until(lambda: all(path.exists() for path in again), "it did not continue", within_s=500.0)
    (tmp_path / "gate").touch()
    done = person.lease("run", "--on", "cluster")
    assert done.code == 0, done.said
    assert set(_steps(person, "lr-1")) == set(_steps(person, "lr-2")) == set(range(1, 31))


def test_a_lost_answer_of_sbatch_submits_nothing_twice(person: Front, slurm: SlurmCluster, tmp_path: Path) -> None:
    _job(person, {"grid": {"lr": [1, 2]}})
    # The controller takes the array, and then whoever asked dies before he hears of it.
    place = program(tmp_path / "cut", "sbatch", 'PATH="$REAL_PATH" sbatch "$@"; kill -9 "$PPID"\n')
    path = {"PATH": f"{place}:{os.environ['PATH']}", "REAL_PATH": os.environ["PATH"]}
    assert person.lease("run", "--on", "cluster", **path).code != 0
    done = person.lease("run", "--on", "cluster")
    assert done.code == 0, done.said
    arrays = set(slurm.run("squeue", "-h", "-t", "all", "-o", "%F").split())
    assert len(arrays) == 1
    assert _steps(person, "lr-1") == [1, 2, 3]


def test_the_run_goes_on_while_the_controller_restarts(person: Front, slurm: SlurmCluster, tmp_path: Path) -> None:
    _job(person, {"grid": {"lr": [1, 2]}}, env={"STEPS": 60, "GATE": str(tmp_path / "gate")})
    _begin(person, slurm, 2)
    slurm.end("slurmctld")
    said = json.loads(person.lease("sweep", "status", "sweep", "--json").out)
    assert not said["settled"]
    (tmp_path / "gate").touch()
    slurm.start_controller()
    done = person.lease("run", "--on", "cluster")
    assert done.code == 0, done.said
    assert _steps(person, "lr-2") == list(range(1, 61))


def test_stopping_ends_our_tasks_and_nobody_elses(person: Front, slurm: SlurmCluster) -> None:
    other = slurm.run("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "sleep 600")
    _job(person, {"grid": {"lr": [1, 2, 3]}, "at_once": 2}, steps=6000)
    _begin(person, slurm, 3)
    done = person.lease("stop", "sweep")
    assert done.code == 0, done.said
    _until(lambda: slurm.run("squeue", "-h", "-t", "R,PD", "-o", "%F").split() == [other], "our tasks still live")
    words = {one["word"] for one in json.loads(person.lease("sweep", "status", "sweep", "--json").out)["cells"]}
    assert words == {"stopped"}


def test_a_cell_that_is_added_joins_the_same_sweep_and_runs_alone(person: Front, slurm: SlurmCluster) -> None:
    _job(person, {"grid": {"lr": [1, 2]}})
    assert person.lease("run", "--on", "cluster").code == 0
    _job(person, {"grid": {"lr": [1, 2, 3]}})
    done = person.lease("run", "--on", "cluster")
    assert done.code == 0, done.said
    assert _steps(person, "lr-1") == _steps(person, "lr-3") == [1, 2, 3]
    assert person.lease("sweep", "reconcile", "sweep").code == 0


def test_a_cell_that_was_given_up_is_not_submitted_again(person: Front, slurm: SlurmCluster, tmp_path: Path) -> None:
    cells = [{"name": name, "mended": str(tmp_path / f"{name}-mended")} for name in ("a", "b")]
    train = 'test -e "$LEASE_PARAM_mended" || exit 3; echo {} > "$LEASE_OUT/metrics.json"'
    person.job(name="sweep", run=train, cells={"list": cells}, artifacts=["metrics.json"], attempts=1)
    failed = person.lease("run", "--on", "cluster")
    assert failed.code == 6, failed.said
    folder = _run_folder(person)
    Session(person, "unused").type("lease waive sweep b", ("type exactly", f"give up b of {folder.name}"))
    for name in ("a", "b"):
        (tmp_path / f"{name}-mended").touch()
    done = person.lease("run", "--on", "cluster")
    assert done.code == 0, done.said
    assert "given up, and not trained again: b" in done.said
    assert [len(list((folder / "cells" / name).glob("attempt-*"))) for name in ("a", "b")] == [2, 1]


def _run_folder(person: Front) -> Path:
    (found,) = (person.folder.parent / "shared fs" / "active").glob("sweep-*")
    return found


def _out(person: Front) -> Path:
    return _run_folder(person) / "out"


def _array(person: Front) -> str:
    return str(json.loads((_run_folder(person) / "slurm" / "submission-0001.json").read_text())["job"])
