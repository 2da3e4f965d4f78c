"""Confined readers without a Python start for each: a process that stays clean forks them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from types import TracebackType
from typing import IO

from .spawn import Child, Conversation, converse, hear

_HERE = os.path.dirname(os.path.abspath(__file__))
_ANSWER_S = 60.0  # for a fork


class Readers:
    """Has files read one after the other, each by its own process; for one thread."""

    def __init__(self, here: str = _HERE) -> None:
        self._here = here
        self._server: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def __enter__(self) -> Readers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._hang_up()

    def ask(self, question: dict[str, object], wall_s: float, answers: int = 1) -> Conversation:
        """Read a file, or several in one reader; this returns whatever happens, and the next reader is a new one."""
        program = os.path.join(self._here, "reader_child.py")
        child = Child([sys.executable, "-I", "-S", "-B", program], {}, start_s=wall_s, wall_s=wall_s)
        if not hasattr(os, "fork"):
            return converse(child, question, answers)
        reader = self._forked(json.dumps(question).encode())
        if reader is None:
            return converse(child, question, answers)
        talk = Conversation()
        hear(talk, reader, answers, child)
        return talk

    def _forked(self, question: bytes) -> _Forked | None:
        """Fork a reader, from a new server if the old one is gone: the previous file may have killed it."""
        for _ in range(2):
            try:
                return self._fork(question)
            except OSError:
                self._hang_up()
        return None

    def _fork(self, question: bytes) -> _Forked:
        home = self._socket or self._start()
        reading, writing = os.pipe()
        said = os.fdopen(reading, "rb")
        try:
            socket.send_fds(home, [question], [writing])
            return _Forked(home, said)
        except OSError:
            said.close()
            raise
        finally:
            os.close(writing)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", os.path.join(self._here, "fork_server.py")],
                stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                cwd=os.path.abspath(os.sep), env={}, start_new_session=True,
            )  # fmt: skip
        ours.settimeout(_ANSWER_S)
        self._socket = ours
        return ours

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._server is not None:
            self._server.kill()  # it holds nothing: its readers have ended, or end with it
            self._server.wait()
        self._socket = self._server = None


class _Forked:
    """A reader whose exit is reported by the fork server."""

    def __init__(self, server: socket.socket, stdout: IO[bytes]) -> None:
        self.stdout: IO[bytes] | None = stdout
        self.returncode: int | None = None
        self._server = server
        self.pid = self._number(_ANSWER_S)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit code; a server that is gone took the reader with it."""
        within_s = _ANSWER_S if timeout is None else timeout
        try:
            self.returncode = self._number(within_s) if self.returncode is None else self.returncode
        except TimeoutError:
            raise subprocess.TimeoutExpired("a confined reader", within_s) from None
        except OSError:
            self.returncode = -signal.SIGKILL
        return self.returncode

    def kill(self) -> None:
        """Do nothing: its whole session was killed, and its pid may be reused once it is waited for."""

    def _number(self, within_s: float) -> int:
        """Read one line from the server."""
        self._server.settimeout(within_s)
        line = b""
        while not line.endswith(b"\n"):
            got = self._server.recv(1)
            if not got:
                raise ConnectionResetError("the forking process is gone")
            line += got
        return int(line)
