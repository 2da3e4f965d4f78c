"""The call that is made before anything is imported: which, by whom it is taken, and that none is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.errors import LinkError
from leasehold.transport import first_call
from leasehold.transport.process import ProcessLink
from tests.support.lives import eventually

_CAT = ["cat"]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Leave no call behind."""
    yield
    first_call.hang_up()


def _explain(code: int, said: str) -> LinkError:
    return LinkError("link.lost", f"{code}: {said}")


def _called(folder: Path, argv: list[str], name: str = "gpu1") -> first_call.Call:
    first_call.remember(str(folder), name, argv)
    first_call.call(str(folder), name)
    (found,) = first_call._under_way
    return found


def test_the_same_call_is_taken_up_and_carries_both_ways(tmp_path: Path) -> None:
    pid = _called(tmp_path, _CAT).pid
    link = ProcessLink(_CAT, os.environ, _explain)
    assert (link.pid, first_call._under_way, link.over) == (pid, [], False)
    link.writer.write(b"hello\n")
    link.writer.flush()
    assert link.reader.read(6) == b"hello\n"
    link.writer.close()
    assert eventually(lambda: link.over), "it holds our end of its own stream"
    assert link.ended() == (0, "")
    link.reader.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def test_it_leads_a_session_of_its_own_and_has_the_three_streams(tmp_path: Path) -> None:
    ask = [sys.executable, "-IS", "-c", "import os; print(os.getpid(), os.getsid(0), *os.listdir('/proc/self/fd'))"]
    _called(tmp_path, ask)
    link = ProcessLink(ask, os.environ, _explain)
    pid, session, *streams = link.reader.read(1000).decode().split()
    assert pid == session == str(link.pid)
    assert {"0", "1", "2"} < set(streams)
    link.close()


def test_how_it_ended_is_explained(tmp_path: Path) -> None:
    argv = ["sh", "-c", "echo no such host >&2; exit 255"]
    _called(tmp_path, argv)
    link = ProcessLink(argv, os.environ, _explain)
    assert eventually(lambda: link.over)
    assert str(link.failure()) == "255: no such host"


def test_one_that_lingers_is_ended(tmp_path: Path) -> None:
    argv = ["sh", "-c", "trap '' TERM; exec 0<&-; echo here; sleep 60 & wait; wait"]
    _called(tmp_path, argv)
    link = ProcessLink(argv, os.environ, _explain, brisk=True)
    assert link.reader.read(5) == b"here\n", "from now on it hears no TERM"
    link.close()
    assert link.over
    subprocess.run(["pkill", "-KILL", "-s", str(link.pid)], check=False)  # its sleep


def test_another_call_is_not_taken_and_ends(tmp_path: Path) -> None:
    pid = _called(tmp_path, _CAT).pid
    link = ProcessLink(["cat", "-"], os.environ, _explain)
    assert link.pid != pid
    link.close()
    assert ProcessLink(_CAT, dict(os.environ), _explain).pid != pid, "its environment may be another"
    first_call.hang_up()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def test_a_home_that_ignores_its_children_learns_that_they_ended(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        _called(tmp_path, _CAT)
        link = ProcessLink(_CAT, os.environ, _explain)
        assert not link.over
        link.kill()
        assert link.ended() == (255, "")
        link.kill()
        link.close()
        _called(tmp_path, ["true"])
        first_call.hang_up()
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_one_that_ends_just_before_it_is_ended_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where SIGCHLD is ignored, its number is gone as soon as it ends."""

    def gone(pid: int, number: int) -> None:
        raise ProcessLookupError

    pid = _called(tmp_path, _CAT).pid
    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", gone)
        first_call.hang_up()
    with contextlib.suppress(ChildProcessError):  # it may have ended so soon that hang_up has reaped it
        os.waitpid(pid, 0)
    _called(tmp_path, _CAT)
    link = ProcessLink(_CAT, os.environ, _explain)
    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", gone)
        link.kill()
    link.close()


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--on", "gpu1", "--detach"],
        ["run", "--on=gpu1"],
        ["check", "job.yaml", "--on", "gpu1"],
        ["fetch", "--on", "gpu1"],
        ["run", "fetch", "--on", "gpu1"],
        ["pull", "toy"],
        ["pull", "toy", "--json"],
    ],
)
def test_a_command_line_that_names_a_box_calls_it(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_HOME", str(tmp_path))
    for name in ("gpu1", first_call.of_run("toy")):
        first_call.remember(first_call.calls_folder(str(tmp_path)), name, _CAT)
    first_call.for_command(words)
    assert [one.argv for one in first_call._under_way] == [("cat",)]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--help"],
        ["plan", "--on", "gpu1"],  # which connects to nothing
        ["run", "--on", "gpu2"],
        ["run", "--on", "gpu1", "--help"],
        ["run", "--on"],
        ["run", "--on", "gpu1,gpu2"],
        ["run", "--on", "../calls/gpu1"],
        ["check", "--on", "gpu1", "--on", "gpu1"],
        ["status", "gpu1"],
        ["pull", "gpu1"],
        ["pull"],
    ],
)
def test_other_command_lines_call_nobody(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_HOME", str(tmp_path))
    first_call.remember(first_call.calls_folder(str(tmp_path)), "gpu1", _CAT)
    first_call.for_command(words)
    assert first_call._under_way == []


def test_a_folder_removed_under_our_feet_is_left_to_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setenv("LEASEHOLD_HOME", "home")
    first_call.for_command(["run", "--on", "gpu1"])
    assert first_call._under_way == []
    monkeypatch.chdir(tmp_path)


def test_nobody_is_called_by_a_file_of_others_or_for_another_ssh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_call.remember(str(tmp_path), "gpu1", _CAT)
    (tmp_path / "gpu1").chmod(0o620)
    first_call.call(str(tmp_path), "gpu1")
    assert first_call._under_way == []
    (tmp_path / "gpu1").chmod(0o600)
    monkeypatch.setenv("LEASEHOLD_SSH", "ssh -F other")
    first_call.call(str(tmp_path), "gpu1")
    assert first_call._under_way == []
    monkeypatch.delenv("LEASEHOLD_SSH")
    first_call.call(str(tmp_path), "gpu1")
    assert len(first_call._under_way) == 1


@pytest.mark.parametrize("argv", [["/no/such/program"], [""]])
def test_a_program_that_is_gone_is_left_to_who_needs_it(argv: list[str], tmp_path: Path) -> None:
    first_call.remember(str(tmp_path), "gpu1", argv)
    before = set(os.listdir("/proc/self/fd"))
    first_call.call(str(tmp_path), "gpu1")
    assert first_call._under_way == []
    assert set(os.listdir("/proc/self/fd")) <= before, "others may have closed theirs meanwhile"


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "a\0b", "x" * 300, "ssh:ä"])
def test_an_odd_name_is_not_remembered(name: str, tmp_path: Path) -> None:
    first_call.remember(str(tmp_path), name, _CAT)
    first_call.forget(str(tmp_path), name)
    assert os.listdir(tmp_path) == []


def test_what_is_forgotten_is_called_no_more(tmp_path: Path) -> None:
    first_call.remember(str(tmp_path), "ssh:root@host:22", ["cat", "ü", ""])
    assert first_call._remembered(str(tmp_path), "ssh:root@host:22") == ("cat", "ü", "")
    assert oct((tmp_path / "ssh:root@host:22").stat().st_mode & 0o777) == "0o600"
    first_call.remember(str(tmp_path), "gpu1", _CAT)
    first_call.forget(str(tmp_path), "ssh:root@host:22")
    assert os.listdir(tmp_path) == ["gpu1"]
    first_call.forget(str(tmp_path))
    assert os.listdir(tmp_path) == []
    first_call.forget(str(tmp_path / "absent"))
    first_call.call(str(tmp_path), "gpu1")
    assert first_call._under_way == []


def test_nothing_is_loaded_for_it_that_python_has_not_loaded_anyway() -> None:
    seen = "import sys; had = {*sys.modules}; import leasehold.transport.first_call; print(*{*sys.modules} - had)"
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    loaded = {"__future__", "leasehold", "leasehold.transport", "leasehold.transport.first_call"}
    assert set(done.stdout.split()) == loaded
