"""A guard between `lease` and a smoke's trainer: it ends the trainer when `lease` is gone, however that ended.

The guard's stdin is a pipe whose other end only `lease` holds. Its end of file means: kill everything. The guard is a
subreaper, so nothing that the smoke starts escapes it, and it exits as the smoke's shell exited.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from leasehold.kit.run.processes import descendants
from leasehold.kit.run.subreaper import adopt_orphans

_SOURCES = str(Path(__file__).resolve().parents[3])
_MAIN = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from leasehold.lifecycle.smoke.smoke_guard import main; sys.exit(main(*sys.argv[2:]))"
)
_KILL_S = 5.0


class Guarded:
    """A smoke's shell under guard, as `lease` sees it."""

    def __init__(self, command: str, place: Path, work: Path, env: Mapping[str, str]) -> None:
        listening, self._rope = os.pipe()
        words = [sys.executable, "-I", "-S", "-c", _MAIN, _SOURCES, command, str(place)]
        try:
            self._child = subprocess.Popen(
                words, cwd=work, env=dict(env), stdin=listening, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(listening)
        assert self._child.stdout is not None
        self.stdout = self._child.stdout

    def kill(self) -> bool:
        """Have everything of the smoke killed; it may already be gone."""
        rope, self._rope = self._rope, -1
        if rope >= 0:
            os.close(rope)
        return True

    def wait(self) -> int:
        """Wait for its end; return a signal as a negative number."""
        code = self._child.wait()
        self.kill()  # only to close our end
        return code


def main(command: str, place: str) -> int:
    """Be the guard: start the shell, wait for its end or for that of `lease`."""
    home = os.getppid()
    adopt_orphans()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    child = os.fork()
    if child == 0:
        _become_shell(command)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)  # the smoke's output ends with the smoke
    os.dup2(null, 2)
    status = _wait(child, reader)
    _end_all(child)
    if os.getppid() != home:
        shutil.rmtree(place, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(place))  # the temporary folder that `lease` would have removed
    return _end_as(status)


def _become_shell(command: str) -> None:
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execv("/bin/sh", ["/bin/sh", "-c", command])
    finally:
        os._exit(127)


def _wait(child: int, reader: int) -> int:
    watched = [0, reader]
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return status
        if pid:  # an orphan of the smoke
            continue
        ready, _, _ = select.select(watched, [], [])
        if reader in ready:
            os.read(reader, 4096)
        if 0 in ready:
            watched = [reader]
            _end_all(child)


def _end_all(child: int) -> None:
    """Kill the shell's group at once, then the processes that left it, and any started meanwhile."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    until = time.monotonic() + _KILL_S
    while time.monotonic() < until:
        alive = descendants(os.getpid())
        for process in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
        if not alive:
            return
        time.sleep(0.01)


def _end_as(status: int) -> int:
    if os.WIFSIGNALED(status):
        import resource

        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core dump is enough
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return os.WEXITSTATUS(status)
