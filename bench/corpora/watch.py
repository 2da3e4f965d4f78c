"""Notice when a process does what no reader of a file has to do, by Python's audit events.

Imported: `watch(folder)`. As a program it stands for the interpreter: `watch.py FOLDER -I -S -B program.py` runs the
program under watch. A sign is an empty folder, since a confined process may still make one where it writes nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import sys
from collections.abc import Callable
from typing import Any

# Reading needs none of them; a payload that does something raises one of them.
ACTS = frozenset(
    ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "os.remove", "os.rename", "os.chmod")
    + ("subprocess.Popen", "pty.spawn", "webbrowser.open", "socket.connect", "socket.getaddrinfo", "socket.bind")
    + ("urllib.Request", "http.client.connect", "smtplib.connect", "ftplib.connect", "pickle.find_class")
)
_ODD = re.compile(r"[^\w.-]+")
_LONGEST = 100


def watch(folder: str, may: Callable[[str, tuple[Any, ...]], bool] | None = None) -> None:
    """From now on leave a sign in `folder` for every act; `may` says which are no act here."""

    def hook(event: str, details: tuple[Any, ...]) -> None:
        if event in ACTS and not (may and may(event, details)):
            with contextlib.suppress(OSError):  # the same sign is there already
                os.mkdir(os.path.join(folder, sign(event, details)))

    sys.addaudithook(hook)


def sign(event: str, details: tuple[Any, ...]) -> str:
    """Spell an event as a file name."""
    return _ODD.sub("-", f"{event} {' '.join(map(str, details[:2]))}").strip("-")[:_LONGEST]


def _main() -> None:
    folder, *words = sys.argv[1:]
    program = next(word for word in words if not word.startswith("-"))
    sys.argv = [program]
    watch(folder)
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    _main()
