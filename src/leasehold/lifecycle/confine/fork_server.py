"""Forks a confined reader for each requested file; the server opens no such file and reads none of their output.

Run by path with `python -I -S -B`; stdin is a socket. A request comes with the pipe that its reader answers through;
the reply is the reader's pid and then its exit code. A new Python start would take thirty times as long as most files.
"""

from __future__ import annotations

import codecs
import contextlib
import gc
import importlib
import json
import os
import socket
import sys
from typing import NoReturn

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

import reader_child  # type: ignore[import-not-found]  # by path: as it is found when it is run by itself

_MOST_REQUEST_BYTES = 1 << 16


def main() -> None:
    """Serve requests one after the other until the home closes the connection."""
    behind = reader_child.walls.leave_network(reopens_files=True)  # once for all: a network namespace is expensive
    reader_child.walls.die_with_parent()
    home = socket.socket(fileno=os.dup(0))
    codecs.lookup("utf-8-sig")  # otherwise each text reader would load it anew, and this one for its limits
    with contextlib.suppress(ImportError):
        importlib.import_module("resource")
    getattr(gc, "freeze", int)()  # otherwise each reader would traverse, and so copy, the memory it shares with us
    while True:
        request, pipes, _, _ = socket.recv_fds(home, _MOST_REQUEST_BYTES, 1)
        if not request or not pipes:
            return
        pid = os.fork()
        if pid == 0:
            _become_reader(home, request, pipes[0], behind)
        os.close(pipes[0])
        home.sendall(b"%d\n" % pid)
        status = os.waitpid(pid, 0)[1]
        home.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _become_reader(home: socket.socket, request: bytes, pipe: int, behind: list[str]) -> NoReturn:
    """Close the connection to the home, and answer for one file only."""
    code = 1
    with contextlib.suppress(BaseException):  # the exit code reports any error: nothing may return to the loop
        os.setsid()
        home.close()
        os.dup2(pipe, 1)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.closerange(3, 64)
        reader_child.attend(json.loads(request), behind)
        code = 0
    os._exit(code)


if __name__ == "__main__":
    main()
