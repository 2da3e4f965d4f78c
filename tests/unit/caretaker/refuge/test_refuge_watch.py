"""The caretaker's side: orders out, events in once, a worker that hangs is ended, a fenced one is left alone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from leasehold.caretaker.refuge import refuge_watch
from leasehold.caretaker.refuge.orders import RefugeFiles, Said
from leasehold.caretaker.refuge.refuge_watch import GIVE_UP_S, Refuge, wanted
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.run.processes import look
from leasehold.kit.run.run_state import fold

# Holds the lock as the worker does, with its identity in it.
HOLDER = """
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
started = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
os.pwrite(fd, ("%d %s\\n" % (os.getpid(), started)).encode(), 0)
print("up", flush=True)
time.sleep(600)
"""


class Watched:
    """A watch with a clock of its own, whose worker is a process of the test."""

    def __init__(self, tmp_path, checkpoint=None, monkeypatch=None):
        self.folder = RunFolder(str(tmp_path / "root/active/toy-0123"))
        os.makedirs(self.folder.path)
        job = {"checkpoint": checkpoint or {"path": "ckpt/*", "refuge": ["durable"]}}
        self.plan = {"cells": ["main"], "job": job, "environment": {"durable": str(tmp_path / "tier")}}
        write_json(self.folder.plan, self.plan)
        self.files, self.now, self.noted = RefugeFiles(self.folder), 1000.0, []
        opened = {"k": "run_opened", "cells": ["main"], "plan_sha256": "p"}
        self.run = fold([opened, {"k": "attempt_starting", "cell": "main", "attempt": 1}])
        self.started = []
        self.watch = self.again()

    def again(self):
        watch = Refuge(self.folder, self.plan, self.note, lambda: self.now)
        watch._worker.start = lambda before, *door: self.started.append(door)
        return watch

    def note(self, kind, **facts):
        self.noted.append(dict(facts, k=kind))
        fold(self.noted[-1:], into=self.run)

    def step(self, seconds=1.0):
        self.now += seconds
        self.watch.step(self.run, [], lambda: None)

    def kinds(self):
        return [event["k"] for event in self.noted]

    def order(self):
        return read_json(self.files.order)

    def hold(self):
        os.makedirs(self.files.path, exist_ok=True)
        words = [sys.executable, "-c", HOLDER, self.files.lock]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
        process.stdout.readline()
        return process


@pytest.fixture
def watched(tmp_path):
    return Watched(tmp_path)


def test_a_worker_is_started_with_its_order_once_a_trainer_runs(watched):
    watched.step()
    assert watched.kinds() == ["refuge_opened"]
    assert watched.noted[0]["places"] == [watched.plan["environment"]["durable"]]
    assert watched.order()["cells"] == {"main": {"attempt": 1, "alive": True, "hurry": False}}
    assert watched.started == [("refuge", watched.folder.address)]


def test_nothing_is_started_before_the_first_attempt(watched):
    watched.run.cells["main"].attempt = 0
    watched.step()
    assert watched.started == []


@pytest.mark.parametrize(
    "checkpoint, durable, is_wanted",
    [({}, "/tier", False), ({"path": "a"}, "/tier", True), ({"path": "a"}, "", False)]
    + [({"path": "a", "refuge": ["s3://b/p"]}, "", True), ({"path": "a", "refuge": ["home"]}, "", True)],
)
def test_a_refuge_is_wanted_where_checkpoints_have_somewhere_to_go(checkpoint, durable, is_wanted):
    assert wanted({"job": {"checkpoint": checkpoint}}, {"durable": durable}) is is_wanted


@pytest.mark.parametrize("refuge, opened", [(["home"], ["refuge_opened"]), (["none"], [])])
def test_home_alone_and_none_need_no_worker(tmp_path, refuge, opened):
    watched = Watched(tmp_path, {"path": "a", "refuge": refuge})
    watched.step()
    assert (watched.started, watched.kinds()) == ([], opened)
    assert watched.watch.settle(watched.run, lambda: None)


def test_what_the_worker_says_is_journaled_once_also_by_a_successor(watched):
    os.makedirs(watched.files.path)
    said = Said(watched.files)
    said.tell("refuge_copied", cell="main", place="/tier", state="s", step=5, made_unix=1.0)
    watched.step()
    said.tell("refuge_failed", cell="main", place="/tier", why="w", **{"class": "full"})
    watched.step()
    watched.step()
    assert watched.kinds() == ["refuge_opened", "refuge_copied", "refuge_failed"]
    successor = watched.again()
    watched.now += 5
    successor.step(watched.run, watched.noted, lambda: None)
    assert watched.kinds().count("refuge_copied") == 1 and watched.kinds().count("refuge_failed") == 1
    assert watched.run.cells["main"].refuge["/tier"]["step"] == 5
    assert watched.run.cells["main"].refuge_failed["/tier"]["class"] == "full"


def test_words_of_another_kind_are_never_journaled(watched):
    os.makedirs(watched.files.path)
    write_json(watched.files.said, {"events": [{"kind": "run_finished", "uid": "1"}, {"kind": "refuge_copied"}, {}]})
    watched.step()
    assert "run_finished" not in watched.kinds()


def test_a_worker_that_hangs_is_ended_and_its_refuge_left_alone(watched):
    holder = watched.hold()
    try:
        write_json(watched.files.progress, {"phase": "copying", "to": "/tier", "cell": "main", "bytes": 7})
        watched.step()
        watched.step(GIVE_UP_S - 10)
        assert holder.poll() is None
        watched.step(20)
        assert holder.wait(30) == -9
        failed = [event for event in watched.noted if event["k"] == "refuge_failed"]
        assert [(event["class"], event["place"]) for event in failed] == [("unreachable", "/tier")]
        watched.step()
        assert watched.order()["skip"] == ["/tier"]
        watched.step(refuge_watch._SKIP_S + 1)
        assert watched.order()["skip"] == []
    finally:
        holder.kill()


def test_a_worker_that_moves_is_left_in_peace(watched):
    holder = watched.hold()
    try:
        for number in range(5):
            write_json(watched.files.progress, {"phase": "copying", "to": "/tier", "bytes": number})
            watched.step(GIVE_UP_S - 10)
        assert holder.poll() is None and "refuge_failed" not in watched.kinds()
    finally:
        holder.kill()


def test_a_fenced_run_has_its_worker_ended_and_none_started(watched):
    holder = watched.hold()
    try:
        watched.run.fenced = {"epoch": 2}
        watched.step()
        assert holder.wait(30) == -9
        watched.step(100)
        assert watched.started == []
        assert watched.watch.settle(watched.run, lambda: None)
    finally:
        holder.kill()


def test_another_process_with_the_old_pid_is_never_ended(watched):
    holder = watched.hold()
    try:
        me = look(os.getpid())
        with open(watched.files.lock, "w") as file:
            file.write("%d %s0\n" % (me.pid, me.started))
        watched.watch.end()
        assert holder.poll() is None
    finally:
        holder.kill()


def test_an_attempt_that_ended_or_is_taken_away_is_hurried(watched):
    cell = watched.run.cells["main"]
    cell.preempted = 1
    watched.step()
    assert watched.order()["cells"]["main"] == {"attempt": 1, "alive": True, "hurry": True}
    cell.state = "ended"
    watched.step()
    assert watched.order()["cells"]["main"] == {"attempt": 1, "alive": False, "hurry": True}


def test_the_end_waits_for_the_last_copy_and_not_for_ever(watched):
    watched.step()
    holder = watched.hold()
    try:
        assert not watched.watch.settle(watched.run, lambda: None)
        assert watched.order()["final"] is True
        watched.now += 60
        write_json(watched.files.progress, {"phase": "copying", "bytes": 1})
        assert not watched.watch.settle(watched.run, lambda: None)
        watched.now += 100
        assert watched.watch.settle(watched.run, lambda: None)
        assert holder.wait(30) == -9
    finally:
        holder.kill()


def test_an_order_is_written_only_when_it_changes(watched):
    watched.step()
    before = os.stat(watched.files.order).st_mtime_ns
    watched.step()
    assert os.stat(watched.files.order).st_mtime_ns == before
    assert watched.order()["box"] == os.uname().nodename
