"""Where secrets and notice addresses lie on a real cluster: in the user's home, or with a warning beside the run."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.front import Front, front
from tests.support.slurm_bed import SlurmCluster

pytestmark = pytest.mark.slurm

TOKEN = "a-token-that-nobody-else-has"
_TRAIN = """
import hashlib, json, os, time
out = os.environ["LEASE_OUT"]
open(os.path.join(out, "begun"), "w").close()
while not os.path.exists(os.environ["UNTIL"]):
    time.sleep(0.05)
seen = hashlib.sha256(os.environ["TOKEN"].encode()).hexdigest()
json.dump({"loss": 1.0, "token": seen}, open(os.path.join(out, "metrics.json"), "w"))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Give a small cluster."""
    with SlurmCluster(tmp_path_factory.mktemp("private") / "slurm", 1) as made:
        yield made


@pytest.fixture
def person(tmp_path: Path, cluster: SlurmCluster) -> Iterator[Front]:
    """Give somebody on the login node whose work lies in a folder outside the home."""
    with front(tmp_path / "person", cluster.environ) as someone:
        someone.write("train.py", _TRAIN)
        added = someone.lease("box", "add", "cluster", "local", "--platform", "slurm", "--root", str(tmp_path / "root"))
        assert added.code == 0, added.said
        yield someone
        cluster.home.chmod(0o700)
        names = [f"lease-{path.name}" for path in (tmp_path / "root" / "active").iterdir()]
        cluster.run("scancel", "--full", "--name", ",".join(names))


def _job(person: Front, flags: tuple[str, ...] = ()) -> Path:
    go = person.folder / "go"
    person.job(
        run="python3 -I -S train.py", artifacts=["metrics.json"], secrets=["TOKEN"], env={"UNTIL": str(go)},
        slurm={"time": "1h", "flags": list(flags)},
    )  # fmt: skip
    return go


def _kept(place: Path) -> list[Path]:
    """Find every file that holds the token."""
    return [path for path in place.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]


def _until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60.0
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def _begun(person: Front) -> bool:
    return bool(list((person.folder.parent / "root" / "active").glob("*/out/*/begun")))


def _check_result(person: Front) -> None:
    done = person.lease("run", "--on", "cluster", TOKEN=TOKEN)
    assert done.code == 0, done.said
    metrics = json.loads((Path(done.out.strip()) / "cells" / "main" / "metrics.json").read_text())
    assert metrics["token"] == hashlib.sha256(TOKEN.encode()).hexdigest()


def test_secrets_lie_in_the_users_home_and_not_beside_the_run(person: Front, cluster: SlurmCluster) -> None:
    go = _job(person)
    done = person.lease("run", "--on", "cluster", "--detach", TOKEN=TOKEN)
    assert done.code == 0, done.said
    place = cluster.home / ".leasehold-private"
    assert f"secrets and notice addresses lie in {place}: only you can enter it" in done.said, done.said
    assert "shared file system" not in done.said
    _until(lambda: _begun(person), "the task did not begin")
    assert [path.stat().st_mode & 0o777 for path in _kept(place)] == [0o600]
    assert _kept(person.folder.parent / "root") == []
    (recorded,) = person.events("private_place")
    assert (recorded["path"], recorded["private"]) == (str(place), True)
    go.touch()
    _check_result(person)
    assert _kept(cluster.home) == [], "a run that has ended leaves no secret"


def test_without_a_private_place_a_warning_comes_before_the_launch(person: Front, cluster: SlurmCluster) -> None:
    go = _job(person)
    go.touch()
    cluster.home.chmod(0o775)
    done = person.lease("run", "--on", "cluster", "--detach", TOKEN=TOKEN)
    assert done.code == 0, done.said
    warning = f"TOKEN will lie on the shared file system, in {person.folder.parent / 'root'}/secrets (0600)"
    assert warning in done.said
    assert f"others can write to {cluster.home} (mode 0775)" in done.said
    assert done.said.index(warning) < done.said.index("run toy-"), "before anything is started"
    (recorded,) = person.events("private_place")
    assert recorded["private"] is False
    assert _kept(cluster.home) == []
    _check_result(person)
    assert _kept(person.folder.parent / "root") == []


def test_a_node_that_cannot_read_the_secrets_says_so_and_trains_nothing(person: Front, cluster: SlurmCluster) -> None:
    _job(person, ("--hold",))
    done = person.lease("run", "--on", "cluster", "--detach", TOKEN=TOKEN)
    assert done.code == 0, done.said
    (kept,) = _kept(cluster.home)
    kept.rename(kept.with_name("elsewhere"))  # as on a site whose nodes do not mount the login node's homes
    cluster.run("scontrol", "release", cluster.run("squeue", "-h", "-o", "%A").split()[0])
    ended = person.lease("watch", "toy")
    assert ended.code == 6, ended.said
    assert "TOKEN: node " in ended.said and "cannot read" in ended.said
    assert not _begun(person)
