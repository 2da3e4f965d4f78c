"""Restrictions that a child process puts on itself before it opens a file from a rented box.

Runs in whatever interpreter the torch check is given, so it keeps to the stdlib and to Python 3.8's library.
A wall that the system refuses is left out of the reported list and is never an error: a receipt lists the
walls that were reached.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import time
from functools import lru_cache
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000


_GRACE_S = 3  # from TimeIsUp to the kernel's own kill, for code that no exception reaches


class TimeIsUp(BaseException):
    """The processor time is used up; not an Exception, so that no handler mistakes it for an error in the file."""


def limit_resources(cpu_s: float, address_bytes: int, open_files: int, data_bytes: int = 0) -> list[str]:
    """Limit CPU, memory and files; forbid writing files, dumping core and starting processes or threads.

    `data_bytes` bounds memory allocated from now on, for a process that maps more addresses than it uses.
    """
    try:
        import resource
    except ImportError:  # Windows
        return []
    wanted = {
        "CORE": 0,
        "FSIZE": 0,
        "NPROC": 0,
        "NOFILE": open_files,
        # CPU already used counts; the torch child imports torch before it comes here.
        "CPU": math.ceil(time.process_time() + cpu_s) + _GRACE_S,
        "AS": address_bytes,
    }
    if data_bytes and _data_now():
        wanted["DATA"] = _data_now() + data_bytes
    reached = [name for name, value in wanted.items() if _lower(resource, name, value)]
    allow_time(cpu_s)
    return ["rlimits"] if len(reached) == len(wanted) else [f"rlimits({','.join(reached)})"] if reached else []


def allow_time(cpu_s: float) -> None:
    """Raise TimeIsUp in the main thread once this much more processor time is used; whole seconds count."""
    try:
        import resource
    except ImportError:  # Windows
        return
    signal.signal(signal.SIGXCPU, _end_time)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = math.ceil(time.process_time() + cpu_s)
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _end_time(number: int, frame: object) -> None:
    raise TimeIsUp


def _data_now() -> int:
    """Return how much memory of its own this process has mapped; 0 where the system does not report it."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            found = [line.split() for line in status if line.startswith("VmData:")]
        return int(found[0][1]) << 10
    except (OSError, IndexError, ValueError):
        return 0


def die_with_parent() -> None:
    """Have the kernel end this process when the thread that started it ends."""
    if sys.platform.startswith("linux"):
        _libc().prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def forbid_new_privileges() -> list[str]:
    """Disable set-uid programs, and die with the parent; call leave_network first, since it undoes that."""
    if not sys.platform.startswith("linux"):
        return []
    die_with_parent()
    return ["no_new_privs"] if _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 else []


def leave_network(reopens_files: bool) -> list[str]:
    """Move to a network namespace without any interface; call it while there is one thread.

    A user namespace lets an ordinary user do this. Root needs none, and would lose in it the right to open
    files of other users, so root enters one only when no file is opened afterwards.
    """
    if not sys.platform.startswith("linux"):
        return []
    alone = os.geteuid() == 0 and reopens_files
    if _libc().unshare(_CLONE_NEWNET if alone else _CLONE_NEWUSER | _CLONE_NEWNET) == 0:
        return ["no_network"]
    return ["no_network"] if os.geteuid() == 0 and _libc().unshare(_CLONE_NEWNET) == 0 else []


def leave_rights() -> None:
    """Give up root's rights over files and processes, once the network was left; call it with files open."""
    if sys.platform.startswith("linux") and os.geteuid() == 0:
        _libc().unshare(_CLONE_NEWUSER)


def _lower(resource: Any, name: str, value: int) -> bool:
    number = getattr(resource, f"RLIMIT_{name}", None)
    if number is None:
        return False
    try:
        _, hard = resource.getrlimit(number)
        bounded = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (bounded, bounded))
    except (OSError, ValueError):  # macOS refuses some
        return False
    return True


@lru_cache(maxsize=None)  # noqa: UP033 - a project with an older torch may have Python 3.8
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
