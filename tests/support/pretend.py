"""Run `lease` as if this were another system: python -m tests.support.pretend darwin|win32 WORDS…

What the system lacks is taken away before anything of ours is imported: modules cannot be imported, functions and
signals are gone, sys.platform says otherwise. The standard library has made its own choices before; so this shows
that our code asks for nothing the system lacks, not that the system behaves as we think.
"""

from __future__ import annotations

import importlib
import importlib.abc
import os
import pkgutil
import signal
import sys
from typing import Any, List

# The standard library, while it may still look at the real system.
STDLIB = (
    "argparse", "base64", "concurrent.futures", "contextlib", "ctypes", "difflib", "email", "getpass", "hashlib",
    "http.client", "importlib.resources", "json", "pathlib", "queue", "random", "secrets", "selectors", "shlex",
    "shutil", "socket", "sqlite3", "subprocess", "tempfile", "textwrap", "threading", "traceback", "unicodedata",
    "urllib.request", "uuid", "zipfile", "yaml",
)  # fmt: skip
MODULES = {"darwin": (), "win32": ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty")}
FUNCTIONS = {
    "darwin": ("sched_getaffinity", "pidfd_open", "memfd_create"),
    "win32": (
        "chroot", "fork", "forkpty", "geteuid", "getegid", "getpgid", "getpgrp", "getsid", "getuid", "getgid", "killpg",
        "mkfifo", "sched_getaffinity", "setsid", "setpgid", "statvfs", "tcgetpgrp", "tcsetpgrp", "uname", "wait4",
        "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "O_CLOEXEC",
    ),
}  # fmt: skip
SIGNALS = {"darwin": (), "win32": ("SIGKILL", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGCHLD", "SIGUSR1", "SIGWINCH")}
ON_THE_BOX = ("leasehold.caretaker", "leasehold.checkpoint")  # these only ever run on a box


class _Refuser(importlib.abc.MetaPathFinder):
    """Finds nothing of what the system lacks."""

    def __init__(self, names: Any) -> None:
        self._names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name in self._names:
            raise ModuleNotFoundError("No module named %r on this system" % name, name=name)


def become(system: str) -> None:
    """Take away what the system lacks."""
    for name in STDLIB:
        importlib.import_module(name)
    for name in MODULES[system]:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Refuser(MODULES[system]))
    for name in FUNCTIONS[system]:
        if hasattr(os, name):
            delattr(os, name)
    for name in SIGNALS[system]:
        if hasattr(signal, name):
            delattr(signal, name)
    sys.platform = system


def import_everything() -> List[str]:
    """Import every module that a home uses; return their names."""
    import leasehold

    found = []
    for module in pkgutil.walk_packages(leasehold.__path__, "leasehold."):
        alone = module.name.rpartition(".")[2]
        if module.name.startswith(ON_THE_BOX) or alone in ("__main__", "reader_child", "torch_child", "unpack"):
            continue
        importlib.import_module(module.name)
        found.append(module.name)
    return found


if __name__ == "__main__":
    become(sys.argv[1])
    if sys.argv[2:] == ["--import-everything"]:
        print("\n".join(import_everything()))
        sys.exit(0)
    from leasehold.shells.cli.main import main

    sys.exit(main(sys.argv[2:]))
