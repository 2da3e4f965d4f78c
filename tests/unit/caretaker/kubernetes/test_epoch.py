"""Epochs: at any time one pod works on a run, and a later one ends the earlier."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import List

import pytest

from leasehold.caretaker.kubernetes.epoch import VARIABLE, Epoch, fence_of, newest, pods_folder
from leasehold.caretaker.process.locks import Superseded
from leasehold.caretaker.run.run_folder import RunFolder

HERE = {"LEASE_POD_NAME": "pod-1", "LEASE_POD_NODE": "node-1"}
THERE = {"LEASE_POD_NAME": "pod-2", "LEASE_POD_NODE": "node-2"}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder.below(str(tmp_path), "toy-1")
    os.makedirs(made.path)
    return made


def test_the_first_pod_works_at_once(folder: RunFolder) -> None:
    assert Epoch.take(folder, HERE).number == 1
    assert newest(folder) == 1


def test_a_pod_that_left_is_followed_at_once(folder: RunFolder) -> None:
    first = Epoch.take(folder, HERE)
    first.leave("done")
    assert Epoch.take(folder, THERE, quiet_s=60.0).number == 2


def test_the_earlier_pod_learns_that_it_is_over(folder: RunFolder) -> None:
    first = Epoch.take(folder, HERE)
    first.check()
    Epoch.take(folder, THERE, quiet_s=0.0)
    with pytest.raises(Superseded):
        first.check()


def test_a_later_pod_waits_while_the_earlier_one_beats(folder: RunFolder) -> None:
    first = Epoch.take(folder, HERE)
    taken: List[Epoch] = []
    thread = threading.Thread(target=lambda: taken.append(Epoch.take(folder, THERE, quiet_s=1.0)))
    thread.start()
    for _ in range(15):
        first.beat()
        thread.join(0.1)
        assert not taken
    first.leave("ended by the later one")
    thread.join(20)
    assert taken[0].number == 2


def test_a_silent_pod_is_taken_for_lost(folder: RunFolder) -> None:
    Epoch.take(folder, HERE)
    assert Epoch.take(folder, THERE, quiet_s=0.3).number == 2


def test_a_waiting_pod_gives_way_to_a_later_one(folder: RunFolder) -> None:
    Epoch.take(folder, HERE)
    problems: List[BaseException] = []

    def wait() -> None:
        try:
            Epoch.take(folder, THERE, quiet_s=60.0)
        except Superseded as error:
            problems.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while newest(folder) < 2:
        thread.join(0.01)
    Path(pods_folder(folder), "epoch-000003.json").write_text("{}")
    thread.join(20)
    assert len(problems) == 1


def test_a_dead_pod_of_the_same_node_is_followed_at_once(folder: RunFolder) -> None:
    first = Epoch.take(folder, HERE)
    os.close(first._lock or -1)  # as its death would
    assert Epoch.take(folder, dict(HERE, LEASE_POD_NAME="pod-9"), quiet_s=60.0).number == 2


def test_many_pods_at_once_take_different_epochs(folder: RunFolder) -> None:
    numbers: List[int] = []

    def take() -> None:
        try:
            numbers.append(Epoch.take(folder, THERE, quiet_s=0.0).number)
        except Superseded:
            numbers.append(0)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert newest(folder) == 8
    won = [number for number in numbers if number]
    assert len(won) == len(set(won))


def test_a_caretaker_of_an_earlier_epoch_is_fenced(folder: RunFolder) -> None:
    first = Epoch.take(folder, HERE)
    fence = fence_of(folder, {VARIABLE: str(first.number)})
    fence()
    Epoch.take(folder, THERE, quiet_s=0.0)
    with pytest.raises(Superseded):
        fence()


def test_outside_pods_nothing_is_fenced(folder: RunFolder) -> None:
    first = Epoch.take(folder, HERE)
    Epoch.take(folder, THERE, quiet_s=0.0)
    fence_of(folder, {})()
    with pytest.raises(Superseded):
        first.check()
