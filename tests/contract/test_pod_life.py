"""Process 1 of a pod, run here as a plain process: orders, signals, successors, and its own leaving."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leasehold.kit.files import journal
from leasehold.model.run.plan import Plan
from leasehold.platforms.engines.kubernetes import manifest
from tests.contract.doors import RESULT, RUN, WAITS, Door, let_go, opened, plan_of, wait_end

_WAIT_S = 90.0


class Pod:
    """One pod: the bootstrap of the manifest, with a name that all its processes carry."""

    def __init__(self, door: Door, name: str, node: str = "node-1") -> None:
        self._mark = f"LEASE_POD_NAME={name}-{os.getpid()}"
        env = {
            **os.environ, "LEASE_RUN": RUN, "HOME": str(door.root.parent / "home"), "LEASE_POD_NODE": node,
            "LEASE_POD_NAME": self._mark.partition("=")[2], "LEASE_POD_ROLE": "job",
        }  # fmt: skip
        script = manifest.BOOTSTRAP.replace(manifest.ROOT, door.place)
        self.child = subprocess.Popen(["sh", "-c", script], env=env, stdin=subprocess.DEVNULL, start_new_session=True)

    def pids(self) -> list[int]:
        """List every process of this pod."""
        found = []
        for place in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if place.name.isdigit() and self._mark.encode() in (place / "environ").read_bytes().split(b"\0"):
                    found.append(int(place.name))
        return found

    def kill(self) -> None:
        """End all of it at once, as a lost node does."""
        while found := self.pids():
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(timeout=0.1)


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """Give an empty box here."""
    with opened("local", tmp_path, "root", monkeypatch) as made:
        yield made


@pytest.fixture
def start_pod(door: Door) -> Iterator[Callable[..., Pod]]:
    """Give a function that starts pods; all end with the test."""
    pods: list[Pod] = []

    def start(name: str, node: str = "node-1") -> Pod:
        pods.append(Pod(door, name, node))
        return pods[-1]

    yield start
    for pod in pods:
        pod.kill()


def test_a_pod_begins_on_homes_order(door: Door, start_pod: Callable[..., Pod]) -> None:
    start_pod("first")
    engine = door.start(in_pod(RESULT))
    assert wait_end(engine)["state"] == "finished"
    assert kinds(door)[0] == "run_opened"
    assert all(event.get("detach") in (None, "k8s-job") for event in events(door))


def test_a_killed_pods_successor_goes_on_without_home(door: Door, start_pod: Callable[..., Pod]) -> None:
    first = start_pod("first")
    engine = door.start(in_pod(WAITS + RESULT))
    until(lambda: "attempt_started" in kinds(door))
    first.kill()
    start_pod("second")
    until(lambda: kinds(door).count("attempt_started") == 2)
    let_go(door)
    assert wait_end(engine)["state"] == "finished"


def test_a_successor_on_another_node_ends_the_earlier_pod(door: Door, start_pod: Callable[..., Pod]) -> None:
    first = start_pod("first")
    engine = door.start(in_pod(WAITS + RESULT))
    until(lambda: "attempt_started" in kinds(door))
    start_pod("second", "node-2")
    assert first.child.wait(timeout=_WAIT_S) == 75
    until(lambda: kinds(door).count("attempt_started") == 2)
    let_go(door)
    assert wait_end(engine)["state"] == "finished"
    assert not damaged(door)


def test_a_signal_reaches_the_trainer_and_the_pod_leaves(door: Door, start_pod: Callable[..., Pod]) -> None:
    pod = start_pod("first")
    door.start(in_pod("trap 'echo saved > \"$LEASE_OUT/saved\"; exit 143' TERM; " + WAITS))
    until(lambda: "attempt_started" in kinds(door))
    pod.child.send_signal(signal.SIGTERM)
    assert pod.child.wait(timeout=_WAIT_S) == 143
    assert (door.out() / "saved").exists()
    assert "preempt_noticed" in kinds(door)


def in_pod(script: str) -> Plan:
    """Plan a script for a pod."""
    planned = plan_of(script)
    return Plan(RUN, planned.job, planned.tree, "kubernetes", ("k8s-job",), engine="kubernetes")


def events(door: Door) -> list[dict[str, object]]:
    """Read the journal from behind."""
    return list(journal.read_from(str(door.root / "active" / RUN / "journal.jsonl"), 0)[0])


def kinds(door: Door) -> list[str]:
    """List the kinds of its events."""
    try:
        return [str(event["k"]) for event in events(door)]
    except FileNotFoundError:
        return []


def damaged(door: Door) -> bool:
    """Return whether two writers left their mark in the journal: a number twice."""
    numbers = [event.get("n") for event in events(door)]
    return len(numbers) != len(set(map(str, numbers)))


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + _WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
