"""The features available on this machine: Linux all, macOS all but being a box, Windows those that need no box.

docs/homes.md describes the same for people.
"""

from __future__ import annotations

import os
import sys

from leasehold.errors import BoxError, HomeError

_PROC = "/proc/self/stat"


def refuse_links() -> None:
    """Raise if a link to a box cannot be opened: on Windows, whose pipes cannot be waited on."""
    if sys.platform == "win32":
        raise HomeError(
            "home.windows",
            "on Windows itself lease cannot speak to a box",
            seen="sys.platform is win32",
            hint="install and run lease inside WSL 2, which is a Linux home; docs/homes.md says what works here",
        )


def refuse_as_box() -> None:
    """Raise if this machine cannot be the box: without /proc nobody can tell which processes are the run's."""
    if sys.platform.startswith("linux") and os.path.exists(_PROC):
        return
    if sys.platform == "win32":
        refuse_links()
    raise BoxError(
        "box.not_here",
        "this machine can be a home, but not the box of a run: `local` needs Linux with /proc",
        seen=f"sys.platform is {sys.platform}, {_PROC} is {'there' if os.path.exists(_PROC) else 'not there'}",
        hint="without /proc a trainer could neither be found nor stopped for sure; use --on ssh:HOST, or a Linux VM",
    )


def refuse_no_sh(what: str) -> None:
    """Raise if there is no POSIX shell to run a job's commands."""
    if sys.platform == "win32":
        raise HomeError(
            "home.no_sh",
            f"{what} needs /bin/sh, which Windows has not",
            seen="sys.platform is win32",
            hint="run lease inside WSL 2, which is a Linux home",
        )
