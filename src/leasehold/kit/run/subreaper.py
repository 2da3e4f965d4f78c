"""The kernel reparents orphans to the nearest subreaper above them: no process that it started escapes."""

from __future__ import annotations

import sys

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans(wanted: bool = True) -> bool:
    """Ask the kernel to make us the parent of orphaned descendants, so that we get their exit codes; or stop that."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    return int(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)) == 0
