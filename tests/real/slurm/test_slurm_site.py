"""What a real cluster does to our jobs, in plain words, with its accounts and without; and what follows by itself."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.beds import ssh_bed
from tests.support.front import Front, front, program
from tests.support.lives import eventually
from tests.support.parts import missing_memory_cgroup, missing_slurm_books
from tests.support.slurm_bed import Site, SlurmCluster

pytestmark = pytest.mark.slurm

# Counts steps and saves each; asked to leave, it leaves. `eat` is memory in MiB, `until` a file to wait for.
_TRAIN = """
import json, os, signal, subprocess, sys, time
out, params = os.environ["LEASE_OUT"], json.loads(os.environ.get("LEASE_PARAMS") or "{}")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
held = [bytearray(b"x" * (1 << 20)) for _ in range(int(os.environ.get("EAT", "0")))]
saved = os.path.join(out, "state.json")
step = json.load(open(saved))["step"] if os.path.exists(saved) else 0
print("from step", step, flush=True)
until = os.environ.get("UNTIL")
while step < 3 or (until and params.get("waits", True) and not os.path.exists(until)):
    step += 1
    time.sleep(0.1)
    with open(saved + ".new", "w") as file:
        json.dump({"step": step}, file)
    os.replace(saved + ".new", saved)
json.dump({"loss": 1.0, "steps": step}, open(os.path.join(out, "metrics.json"), "w"))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Give a cluster with accounts and memory limits, where this machine can have them."""
    kind = Site(books=missing_slurm_books() is None, memory="polled" if missing_memory_cgroup() else "cgroup")
    with SlurmCluster(tmp_path_factory.mktemp("site") / "slurm", 2, kind) as cluster:
        yield cluster


@pytest.fixture
def person(tmp_path: Path, site: SlurmCluster) -> Iterator[Front]:
    """Give somebody on the login node."""
    with _somebody(tmp_path, site) as someone:
        yield someone


@contextlib.contextmanager
def _somebody(folder: Path, cluster: SlurmCluster) -> Iterator[Front]:
    with front(folder / "person", cluster.environ) as someone:
        someone.write("train.py", _TRAIN)
        done = someone.lease("box", "add", "cluster", "local", "--platform", "slurm", "--root", str(folder / "root"))
        assert done.code == 0, done.said
        yield someone
        names = [f"lease-{path.name}" for path in (folder / "root" / "active").iterdir()]
        cluster.run("scancel", "--full", "--name", ",".join(names))


def _job(person: Front, **change: Any) -> None:
    job = {
        "name": "job", "run": "python3 -I -S train.py", "artifacts": ["metrics.json"],
        "checkpoint": {"path": "state.json"}, "slurm": {"time": "1h"},
    }  # fmt: skip
    person.job(**{**job, **change})


def _active(person: Front, name: str = "job") -> Path:
    (found,) = (person.folder.parent / "root" / "active").glob(f"{name}-*")
    return found


def _submission(person: Front, number: int, name: str = "job") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_active(person, name) / "slurm" / f"submission-{number:04d}.json").read_text())
    return found


def _until(true: Callable[[], object], what: str, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def _begin(person: Front, name: str = "job") -> Path:
    """Start a run and leave it alone once it has saved a first state; return that cell's output."""
    done = person.lease("run", "--on", "cluster", "--detach")
    assert done.code == 0, done.said
    place = _active(person, name) / "out"
    _until(lambda: list(place.glob("*/state.json")), "it saved nothing")
    return place


def _status(person: Front, name: str = "job") -> dict[str, Any]:
    os.utime(_active(person, name) / "status.json", (0, 0))  # a young one is not asked for again
    (row,) = json.loads(person.lease("status", "--refresh", "--json", name).out)["runs"]
    found: dict[str, Any] = row
    return found


@pytest.mark.full
def test_a_job_that_outgrows_its_memory_says_so_and_more_memory_mends_it(
    person: Front, site: SlurmCluster, tmp_path: Path
) -> None:
    env = {"EAT": "120", "UNTIL": str(tmp_path / "go")}
    _job(person, env=env, slurm={"time": "1h", "mem": "64MiB"})
    done = person.lease("run", "--on", "cluster")
    assert done.code == 6, done.said
    assert ("raise slurm.mem, now 64 MiB," if site.site.memory == "cgroup" else "raise slurm.mem") in done.said
    (tmp_path / "go").touch()
    _job(person, env=env, slurm={"time": "1h", "mem": "300MiB"})
    done = person.lease("run", "--on", "cluster")
    assert done.code == 0, done.said


@pytest.mark.slurm_books
def test_a_limit_of_the_site_is_named_and_a_foreign_account_refused(person: Front, tmp_path: Path) -> None:
    _job(person, slurm={"time": "1h", "account": "nobodys"})
    assert "Invalid account" in person.lease("run", "--on", "cluster").said
    env = {"UNTIL": str(tmp_path / "go")}
    _job(person, env=env, cells=[{"name": "a"}, {"name": "b"}], slurm={"time": "1h", "account": "lab", "qos": "tight"})
    _begin(person)
    told: list[str] = []  # the scheduler gives a reason when it has looked

    def limited() -> bool:
        told.append(_status(person)["reason"])
        return "you have as many jobs in use as the QOS allows you at once" in told[-1]

    assert eventually(limited), told
    assert "1 of 2 cells run on n1: 1 core" in told[-1]


@pytest.mark.full
def test_a_waiting_run_says_why_and_a_changed_wish_reaches_it(person: Front, site: SlurmCluster) -> None:
    _job(person, slurm={"time": "10m", "partition": "short"})
    done = person.lease("run", "--on", "cluster", "--detach")
    assert "slurm.time asks for 10 min, and short allows 5" in done.said
    _job(person, slurm={"time": "1h", "flags": ["--hold"]})
    done = person.lease("run", "--on", "cluster", "--detach")
    assert done.code == 0, done.said
    found = _status(person)
    assert (found["state"], "you hold it: scontrol release" in found["reason"]) == ("running", True)
    assert "you hold it" in person.lease("doctor", "job").out
    _job(person)
    done = person.lease("run", "--on", "cluster")
    assert done.code == 0, done.said
    assert site.run("squeue", "-h", "-t", "PD", "-o", "%F") == ""


def test_a_batch_script_that_fails_shows_its_last_words(person: Front) -> None:
    _job(person, slurm={"time": "1h", "modules": ["no-such-module/1"]})
    done = person.lease("run", "--on", "cluster")
    assert done.code == 6
    assert "its batch script failed: exit code 1" in done.said
    assert "module" in done.said.rpartition("error[")[2]


@pytest.mark.full
def test_where_nothing_is_requeued_a_cell_goes_on_unattended(person: Front, site: SlurmCluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    _job(person, name="first", env={"UNTIL": str(go)}, slurm={"time": "1h", "partition": "once"})
    out = _begin(person, "first")
    _job(person, name="second", slurm={"time": "1h", "after": "first"})
    assert person.lease("run", "--on", "cluster", "--detach").code == 0
    first = _submission(person, 1, "first")["job"]
    site.run("scancel", "--signal=TERM", "--batch", f"{first}_0")
    handed = _active(person, "first") / "slurm" / "submission-0002.json"
    _until(handed.exists, "nothing was handed on")
    _until(lambda: json.loads(handed.read_text())["job"], "it was not submitted")
    onward = json.loads(handed.read_text())["job"]
    _until(lambda: site.run("squeue", "-h", "-t", "R", "-j", onward), "the rest did not begin")
    assert site.run("squeue", "-h", "-t", "PD", "-o", "%F", "-j", _submission(person, 1, "second")["job"])
    go.touch()
    _until(lambda: list((_active(person, "second") / "out").glob("*/metrics.json")), "the second did not follow")
    before = json.loads((out / "main" / "metrics.json").read_text())
    assert before["steps"] > 3
    attempts = sorted(path.name for path in (_active(person, "first") / "cells" / "main").glob("attempt-*"))
    assert attempts == ["attempt-0001", "attempt-0002"]
    _job(person, name="first", env={"UNTIL": str(go)}, slurm={"time": "1h", "partition": "once"})
    assert person.lease("run", "--on", "cluster").code == 0


@pytest.mark.full
def test_walls_asked_for_ahead_go_on_after_a_task_that_died_silently(
    person: Front, site: SlurmCluster, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    _job(person, env={"UNTIL": str(go)}, slurm={"time": "1h", "partition": "once", "chain": 3})
    _begin(person)
    site.run("scancel", "--signal=KILL", "--full", f"{_submission(person, 1)['job']}_0")
    second = _submission(person, 2)["job"]
    _until(lambda: site.run("squeue", "-h", "-t", "R", "-j", second), "the next wall did not begin")
    go.touch()
    _until(lambda: (_active(person) / "out/main/metrics.json").exists(), "it did not go on")
    _until(lambda: not site.run("squeue", "-h", "-o", "%F", "--me"), "a wall that nobody needs still waits")
    done = person.lease("run", "--on", "cluster")
    assert done.code == 0, done.said


@pytest.mark.full
def test_a_failed_first_run_is_named_and_the_second_follows_once_mended(
    person: Front, site: SlurmCluster, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    _job(person, name="first", env={"UNTIL": str(go)})
    _begin(person, "first")
    _job(person, name="second", slurm={"time": "1h", "after": "first"})
    assert person.lease("run", "--on", "cluster", "--detach").code == 0
    site.run("scancel", "--full", _submission(person, 1, "first")["job"])
    _until(lambda: "NeverSatisfied" in site.run("squeue", "-h", "-o", "%r", "--me"), "Slurm did not give it up")
    assert "will not start by itself" in _status(person, "second")["reason"]
    done = person.lease("run", "--on", "cluster", "--detach")
    assert "first-" in done.said and "fix and run it first" in done.said
    go.touch()
    _job(person, name="first", env={"UNTIL": str(go)})
    assert person.lease("run", "--on", "cluster").code == 0
    _job(person, name="second", slurm={"time": "1h", "after": "first"})
    done = person.lease("run", "--on", "cluster")
    assert done.code == 0, done.said


@pytest.mark.full
@pytest.mark.slurm_books
def test_the_accounts_tell_what_the_controller_has_forgotten(person: Front, site: SlurmCluster, tmp_path: Path) -> None:
    _job(person, env={"UNTIL": str(tmp_path / "go")})
    _begin(person)
    job = _submission(person, 1)["job"]
    site.run("scancel", "--full", job)
    asked = ("sacct", "-X", "-n", "-P", "-j", job, "-o", "State,End")
    _until(
        lambda: "CANCELLED by" in site.run(*asked) and "Unknown" not in site.run(*asked), "the accounts do not know it"
    )
    _until(lambda: not site.run("squeue", "-h", "-j", job), "it still runs")
    site.forget_jobs()
    found = _status(person)
    assert found["state"] == "failed"
    assert "it was cancelled by you" in found["reason"], site.run(*asked)


@pytest.mark.full
def test_without_accounts_a_forgotten_task_is_said_to_be_one_and_goes_on(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with SlurmCluster(tmp_path / "slurm", 1) as cluster, _somebody(tmp_path, cluster) as person:
        _job(person, env={"UNTIL": str(go)})
        _begin(person)
        job = _submission(person, 1)["job"]
        cluster.run("scancel", "--signal=KILL", "--full", job)
        _until(lambda: not cluster.run("squeue", "-h", "-j", job), "it still runs")
        cluster.forget_jobs()
        assert "Slurm no longer knows how" in _status(person)["reason"]
        go.touch()
        done = person.lease("run", "--on", "cluster")
        assert done.code == 0, done.said
        assert json.loads((_active(person) / "out/main/metrics.json").read_text())["steps"] > 3


def test_the_last_cell_tells_the_end_once_and_the_allocation_is_shown(
    person: Front, heard: tuple[str, list[dict[str, Any]]]
) -> None:
    address, seen = heard
    assert person.lease("notify", "add", "webhook", address).code == 0
    gpu = {"gpu": {"name": "A100", "count": 1}}
    _job(person, cells=[{"name": name} for name in ("a", "b", "c")], resources=gpu, slurm={"time": "1h", "cpus": 2})
    assert person.lease("run", "--on", "cluster", "--detach").code == 0
    _until(lambda: seen, "nobody told")
    _until(lambda: not (_active(person) / "slurm" / "ended").exists() or _over(person), "it did not end")
    assert [message["event"] for message in seen] == ["run_finished"]
    assert "bill" not in seen[0]["text"]
    assert person.lease("status", "--refresh").code == 0
    (lease,) = json.loads(person.lease("status", "--json").out)["leases"]
    assert 0 < lease["card_s"] < lease["core_s"]
    assert "--gres=gpu:a100:1" in (_active(person) / "slurm" / "submission-0001.argv").read_text()


def _over(person: Front) -> bool:
    return '"run_finished"' in (_active(person) / "journal.jsonl").read_text()


@pytest.mark.real_ssh
def test_a_login_node_behind_ssh_does_the_same(tmp_path: Path, site: SlurmCluster) -> None:
    known = {name: site.environ[name] for name in ("SLURM_CONF", "TZ")}
    with ssh_bed(tmp_path / "far", known) as bed, front(tmp_path / "near", bed.environment) as person:
        person.write("train.py", _TRAIN)
        root = str(tmp_path / "root")
        assert person.lease("box", "add", "cluster", "ssh box", "--platform", "slurm", "--root", root).code == 0
        _job(person, cells=[{"name": "a"}, {"name": "b"}])
        done = person.lease("run", "--on", "cluster")
        assert done.code == 0, done.said
        assert _status(person)["state"] == "finished"
        names = {path.name for path in (person.project / "lease-results" / "export").glob("job-*/cells/*")}
        assert names == {"a", "b"}


def test_a_card_the_cluster_lacks_is_refused_with_what_it_has(person: Front) -> None:
    _job(person, resources={"gpu": {"name": "H100"}})
    done = person.lease("run", "--on", "cluster")
    assert done.code != 0
    assert "no card here is named 'H100'" in done.said
    assert "main has gpu:a100, 4 on each of 2 nodes" in done.said


def test_inside_an_image_the_command_has_our_folders_and_the_tasks_cards(
    person: Front, site: SlurmCluster, tmp_path: Path
) -> None:
    # No image runtime can be installed here: this one records how it was called, and runs the command.
    place = program(tmp_path / "site", "apptainer", _APPTAINER.format(log=tmp_path / "called"))
    run = "srun sh -c 'echo \"$SLURM_CPUS_ON_NODE $CUDA_VISIBLE_DEVICES\"' > $LEASE_OUT/metrics.json"
    image = {"image": "/images/torch.sif", "image_flags": ["--bind=/datasets"]}
    slurm = {"time": "1h", "cpus": 3, "gres": "gpu:a100:2", **image}
    _job(person, run=run, setup="echo ready > made", artifacts={"metrics.json": "bytes"}, slurm=slurm)
    done = person.lease("run", "--on", "cluster", PATH=f"{place}:{person.environment['PATH']}")
    assert done.code == 0, done.said
    called = (tmp_path / "called").read_text().split("\n")
    assert called[0].startswith("exec --nv --bind ")
    assert f"--pwd {_active(person)}/work/main --bind=/datasets /images/torch.sif /bin/sh -c " in called[0]
    assert (_active(person) / "out/main/metrics.json").read_text().split() == ["3", "0,1"]
    assert (_active(person) / "work/main/made").read_text() == "ready\n"


_APPTAINER = """
echo "$*" >> "{log}"
while [ "$1" != /images/torch.sif ]; do
  [ "$1" = --pwd ] && cd "$2"
  shift
done
shift
exec "$@"
"""
