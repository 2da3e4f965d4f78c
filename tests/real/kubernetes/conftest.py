"""One real cluster for the tests of a worker, and a person with a namespace of their own in it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.front import LEASE, Front, front
from tests.support.k8s_bed import IMAGE, K8sCluster, missing_kubelet

_WAIT_S = 120.0

TRAIN = """
import json, os, signal, sys, time
out, steps = os.environ["LEASE_OUT"], int(sys.argv[1])
saved = os.path.join(out, "state.json")
step = json.load(open(saved))["step"] if os.path.exists(saved) else 0
print("from step", step, "with", len(os.environ.get("TOY_TOKEN", "")), flush=True)
def save():
    with open(saved + ".new", "w") as file:
        json.dump({"step": step}, file)
    os.replace(saved + ".new", saved)
signal.signal(signal.SIGTERM, lambda *_: (save(), sys.exit(143)))
while step < steps:
    step += 1
    time.sleep(0.05)
    save()
    print("step", step, flush=True)
    while step == 20 and len(sys.argv) > 2 and not os.path.exists("/checkpoints/go"):
        time.sleep(0.1)
json.dump({"steps": step}, open(os.path.join(out, "result.json"), "w"))
"""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[K8sCluster]:
    """Give a real control plane with one real node."""
    reason = missing_kubelet()
    if reason is not None:
        pytest.skip(reason)
    with K8sCluster(tmp_path_factory.mktemp("k8s")) as made:
        yield made


class Person(Front):
    """Somebody with a namespace on the cluster."""

    cluster: K8sCluster
    namespace: str

    @property
    def on(self) -> str:
        """Name the cluster for `lease run --on`."""
        return f"k8s:bed/{self.namespace}"

    def toy(self, *words: str, **change: Any) -> None:
        """Write a job that trains for so many steps."""
        self.write("train.py", TRAIN)
        pod = {"image": IMAGE, "storage": "50MB", "memory": "256MB", **change.pop("kubernetes", {})}
        command = f"python3 train.py {' '.join(words or ('5',))}"
        self.job(**{"run": command, "smoke": "python3 train.py 1", "kubernetes": pod, **change})

    def kubectl(self, *words: str, check: bool = True, text: str = "") -> str:
        """Ask the cluster in this namespace."""
        return self.cluster.kubectl("-n", self.namespace, *words, check=check, text=text)

    def pods(self, kind: str = "trainer") -> list[dict[str, Any]]:
        """List pods of one kind."""
        said = self.kubectl("get", "pods", "-o", "json", "-l", f"leasehold.dev/kind={kind}")
        return sorted(json.loads(said)["items"], key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def kinds(self) -> set[str]:
        """List the kinds of objects that are left."""
        said = self.kubectl(
            "get", "jobs,pods,pvc,secrets", "-o", "name", "-l", "app.kubernetes.io/managed-by=leasehold"
        )
        return {line.split("/")[0].split(".")[0] for line in said.split()}

    def begin(self, *words: str) -> Lease:
        """Start a command and let it run."""
        return Lease(self, words)

    def inside(self, command: str) -> str:
        """Run a command in the trainer's pod."""
        return self.kubectl("exec", self.pods()[-1]["metadata"]["name"], "--", "sh", "-c", command)


class Lease:
    """A `lease` that runs beside the test."""

    def __init__(self, person: Person, words: tuple[str, ...]) -> None:
        self._log = person.folder / "lease.log"
        with open(self._log, "wb") as log:
            self._child = subprocess.Popen(
                [*LEASE, *words], cwd=person.project, env=person.environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def said(self) -> str:
        """All that it printed so far."""
        return self._log.read_text("utf-8", "replace")

    def until(self, words: str) -> None:
        """Wait until it has printed these words."""
        eventually(lambda: words in self.said or self._child.poll() is not None, lambda: self.said)
        assert words in self.said, self.said

    def end(self) -> int:
        """Wait for its end."""
        return self._child.wait(timeout=_WAIT_S)

    def kill(self) -> None:
        """End it at once."""
        self._child.kill()
        self._child.wait()


def eventually(holds: Callable[[], bool], say: Callable[[], Any] = lambda: "") -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + _WAIT_S
    while not holds():
        assert time.monotonic() < deadline, say()
        time.sleep(0.1)


@pytest.fixture
def person(cluster: K8sCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Person]:
    """Give somebody with an empty namespace; everything in it goes with the test."""
    namespace = f"t{abs(hash(request.node.nodeid)) % 10**8}"
    cluster.kubectl("create", "namespace", namespace)
    with front(tmp_path / "person", cluster.environment) as made:
        someone = Person(tmp_path / "person", made.environment)
        someone.cluster, someone.namespace = cluster, namespace
        try:
            yield someone
        finally:
            cluster.kubectl(
                "-n", namespace, "delete", "jobs,pods,pvc", "--all", "--wait=false", "--grace-period=0", "--force"
            )
            cluster.kubectl("delete", "namespace", namespace, "--wait=false")
