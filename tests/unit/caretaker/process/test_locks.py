"""Kernel locks: one holder, ended by death, and lookers who disturb nobody."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Iterator, List

import pytest

from leasehold.caretaker.process.locks import HeldLock, Superseded, is_held, try_lock, wait_lock

SRC = str(Path(__file__).resolve().parents[4] / "src")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "lock")


def take(path: str) -> int:
    fd = try_lock(path)
    assert fd is not None
    return fd


def test_a_lock_that_was_never_taken_is_not_held(path: str) -> None:
    assert not is_held(path)
    assert not os.path.exists(path), "looking must not create it"


def test_the_second_taker_gets_nothing_until_the_first_lets_go(path: str) -> None:
    fd = take(path)
    assert try_lock(path) is None
    assert is_held(path)
    os.close(fd)
    assert not is_held(path)
    os.close(take(path))


def test_waiting_ends_with_nothing_when_the_holder_stays(path: str) -> None:
    fd = take(path)
    assert wait_lock(path, 0.02) is None
    os.close(fd)


def test_waiting_gets_the_lock_once_the_holder_lets_go(path: str) -> None:
    fd = take(path)
    timer = threading.Timer(0.05, os.close, [fd])
    timer.start()
    got = wait_lock(path, 30)
    timer.join()
    assert got is not None
    os.close(got)


def test_a_lock_lives_while_any_heir_of_it_lives_and_ends_with_the_last(path: str) -> None:
    """The keeper's lock: the trainer inherits it, so it outlives the keeper."""
    fd = take(path)
    os.set_inheritable(fd, True)
    heir = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    os.close(fd)
    try:
        assert is_held(path)
    finally:
        heir.send_signal(signal.SIGKILL)
        heir.communicate()
    assert not is_held(path)


def test_a_lock_is_not_inherited_by_chance(path: str) -> None:
    fd = take(path)
    pipe = subprocess.PIPE
    program = "print('up', flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, close_fds=False)
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"  # it has passed through exec, which closes what is not to be inherited
    os.close(fd)
    try:
        assert not is_held(path)
    finally:
        child.kill()
        child.communicate()


def test_looking_does_not_take_the_lock_away_from_its_holder(path: str) -> None:
    fd = take(path)
    assert [is_held(path) for _ in range(3)] == [True, True, True]
    assert try_lock(path) is None
    os.close(fd)


def test_many_lookers_at_once_never_take_each_other_for_a_holder(path: str) -> None:
    """A dead caretaker that looks alive because two commands look at the same moment is never revived."""
    os.close(take(path))
    imports = "import sys; from leasehold.caretaker.process.locks import is_held; "
    program = imports + "sys.exit(any(is_held(%r) for _ in range(8000)))"
    environment = {**os.environ, "PYTHONPATH": SRC}
    lookers = [subprocess.Popen([sys.executable, "-c", program % path], env=environment) for _ in range(3)]
    assert [looker.wait() for looker in lookers] == [0, 0, 0]


def test_a_taker_who_waits_a_moment_gets_past_constant_lookers(path: str) -> None:
    os.close(take(path))
    over = threading.Event()
    lookers = [threading.Thread(target=look_until, args=(path, over)) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        taken: List[bool] = []
        for _ in range(50):
            fd = wait_lock(path, 60.0)
            taken.append(fd is not None)
            os.close(fd if fd is not None else os.open(os.devnull, os.O_RDONLY))
    finally:
        over.set()
        for looker in lookers:
            looker.join()
    assert all(taken)


def look_until(path: str, over: threading.Event) -> None:
    while not over.is_set():
        is_held(path)


def test_a_holder_whose_file_was_deleted_still_holds(path: str) -> None:
    with held_elsewhere(path):
        os.unlink(path)
        assert is_held(path)
        assert try_lock(path) is None
        assert os.path.exists(path)  # made by the attempt, and free: it must not look free either
        assert is_held(path)
    assert not is_held(path)
    os.close(take(path))


def test_a_holder_whose_file_was_replaced_still_holds(path: str) -> None:
    with held_elsewhere(path):
        other = path + ".new"
        Path(other).touch()
        os.replace(other, path)
        assert is_held(path)
        assert try_lock(path) is None


def test_a_long_holder_makes_its_deleted_file_anew_and_stays_the_only_one(path: str) -> None:
    held = HeldLock(path, take(path))
    os.pwrite(held.fd, b"12 34\n", 0)
    assert not held.check()
    os.unlink(path)
    assert held.check()
    assert not held.check()
    assert Path(path).read_bytes() == b"12 34\n"
    assert is_held(path)
    os.close(held.fd)
    assert not is_held(path)


def test_a_long_holder_leaves_when_somebody_else_holds_the_new_file(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = HeldLock(path, take(path))
    os.unlink(path)
    new = os.open(path, os.O_RDWR | os.O_CREAT)  # as where the kernel does not list its locks
    fcntl.flock(new, fcntl.LOCK_EX)
    monkeypatch.setattr(HeldLock, "_RETAKE_S", 0.0)
    with pytest.raises(Superseded):
        held.check()
    os.close(new)
    os.close(held.fd)


@contextlib.contextmanager
def held_elsewhere(path: str) -> Iterator[None]:
    """Another process holds the lock."""
    program = (
        "import sys; from leasehold.caretaker.process.locks import try_lock; print(try_lock(sys.argv[1])); input()"
    )
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": SRC}
    holder = subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=pipe, stdout=pipe, bufsize=0, env=environment
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip().isdigit()
        yield
    finally:
        holder.kill()
        holder.communicate()
