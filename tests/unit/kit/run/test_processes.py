"""Which process is meant: pid and start time together."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest

from leasehold.kit.run import processes
from leasehold.kit.run.processes import MARK, boot_id, environment, in_groups, is_alive, look, marked

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")


@pytest.fixture
def start():
    children = []

    def run(*argv, **options):
        child = subprocess.Popen(argv, **options)
        children.append(child)
        return child

    yield run
    for child in children:
        child.kill()
        child.wait()


def until(true, limit_s=60.0):
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, "it never became true"
        time.sleep(0.01)


def test_this_process_is_alive_under_its_own_start_time_only():
    me = look(os.getpid())
    assert me.pid == os.getpid()
    assert (me.group, me.session) == (os.getpgrp(), os.getsid(0))
    assert is_alive(me.pid, me.started)
    assert not is_alive(me.pid, "%d" % (int(me.started) + 1)), "another process with our pid is not us"
    assert not is_alive(me.pid, "")


def test_a_pid_that_nobody_has_is_none():
    child = subprocess.Popen(["true"])
    child.wait()
    assert look(child.pid) is None
    assert not is_alive(child.pid, "1")


def test_a_zombie_is_gone(start):
    child = start("true")
    until(lambda: look(child.pid).state == "Z")
    seen = look(child.pid)
    assert seen.gone
    assert not is_alive(child.pid, seen.started)


@pytest.mark.parametrize("name", ["x) Z 1 (y", "a\nb) X", "))))", " ) R 7 7"])
def test_a_program_cannot_lie_about_its_state_by_its_name(start, tmp_path, name):
    os.symlink(shutil.which("sleep"), str(tmp_path / name))
    child = start(str(tmp_path / name), "60", start_new_session=True)
    until(lambda: look(child.pid).group == child.pid)
    seen = look(child.pid)
    assert (seen.pid, seen.group, seen.session) == (child.pid, child.pid, child.pid)
    assert not seen.gone
    assert is_alive(child.pid, seen.started)


def test_start_times_tell_two_processes_apart(start):
    first = start("sleep", "60")
    time.sleep(0.05)  # the kernel counts start times in hundredths of a second
    second = start("sleep", "60")
    assert look(first.pid).started != look(second.pid).started


def test_marked_processes_are_found_and_others_are_not(start, tmp_path):
    mark = "%s|run" % tmp_path
    ours = start("sleep", "60", env={MARK: mark + "/main/1"})
    exact = start("sleep", "60", env={MARK: mark})
    start("sleep", "60", env={MARK: mark + "-2/main/1"})  # another run whose name begins alike
    start("sleep", "60", env={"NOT_" + MARK: mark})
    start("sleep", "60", env={"X": "%s=%s" % (MARK, mark)})
    until(lambda: len(marked(mark)) == 2)
    assert sorted(process.pid for process in marked(mark)) == sorted([ours.pid, exact.pid])
    assert [process.pid for process in marked(mark + "/main")] == [ours.pid]


def test_the_asker_is_never_among_the_marked(tmp_path):
    mark = "%s|me" % tmp_path  # no other run of this test, beside us, has it
    code = "import sys; from leasehold.kit.run.processes import marked; print([p.pid for p in marked(sys.argv[1])])"
    env = dict(os.environ, **{MARK: mark, "PYTHONPATH": os.pathsep.join(sys.path)})
    said = subprocess.run([sys.executable, "-c", code, mark], env=env, stdout=subprocess.PIPE, check=True)
    assert said.stdout.strip() == b"[]"


def test_a_dead_marked_process_is_not_found(start, tmp_path):
    mark = "%s|dead" % tmp_path
    child = start("true", env={MARK: mark})
    until(lambda: look(child.pid).gone)
    assert marked(mark) == []


def test_members_of_a_group_are_found(start):
    leader = start("sh", "-c", "sleep 60 & sleep 60 & wait", start_new_session=True)
    until(lambda: len(in_groups({leader.pid})) == 3)
    assert leader.pid in [process.pid for process in in_groups({leader.pid})]
    os.killpg(leader.pid, 9)
    leader.wait()
    until(lambda: in_groups({leader.pid}) == [])


def test_an_environment_is_read_as_it_was_given(start):
    child = start("sleep", "60", env={"A": "1=2", "B": "two\nlines", "C": "训练", "D": ""})
    until(lambda: environment(child.pid) != {} and "A" in environment(child.pid))
    assert environment(child.pid) == {"A": "1=2", "B": "two\nlines", "C": "训练", "D": ""}


def test_an_environment_that_cannot_be_read_is_empty():
    assert environment(2**22 + 1) == {}


def test_the_boot_has_one_name():
    assert boot_id() == boot_id() != ""


def test_without_proc_ps_is_asked():
    if shutil.which("ps") is None:
        pytest.skip("no ps here (Debian: apt-get install procps)")
    seen = processes._look_without_proc(os.getpid())
    real = look(os.getpid())
    assert (seen.pid, seen.group, seen.session) == (real.pid, real.group, real.session)
    assert seen.started == processes._look_without_proc(os.getpid()).started != ""
    assert processes._look_without_proc(2**22 + 1) is None
