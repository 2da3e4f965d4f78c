"""A child that raises the walls and then tries to get out: python walled.py SRC FILE PORT. Run by path.

Prints what it reached and which attempts succeeded.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
import threading


def main(source: str, kept: str, port: int) -> None:
    sys.path.append(source)
    from leasehold.lifecycle.confine import walls

    reached = walls.leave_network(reopens_files=False) + walls.forbid_new_privileges()
    reached += walls.limit_resources(5, 300 * 1024 * 1024, 16)
    attempts = {
        "connect": lambda: socket.create_connection(("127.0.0.1", port), timeout=2),
        "write": lambda: _write(kept),
        "fork": _fork,
        "thread": lambda: threading.Thread(target=int).start(),
        "allocate": lambda: bytearray(400 * 1024 * 1024),
        "open many": lambda: [open(__file__) for _ in range(40)],  # noqa: SIM115  never reached
        "raise a limit": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1)),
    }
    done = [name for name, attempt in attempts.items() if _works(attempt)]
    print(json.dumps({"reached": reached, "done": done, "environment": len(os.environ)}))


def _works(attempt) -> bool:
    try:
        attempt()
    except (OSError, MemoryError, RuntimeError, ValueError):
        return False
    return True


def _write(path: str) -> None:
    with open(path, "ab") as out:
        out.write(b"x")


def _fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
