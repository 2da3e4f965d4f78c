"""Enlarge pipes: fewer context switches between writer and reader."""

from __future__ import annotations

import contextlib

_F_SETPIPE_SZ = 1031  # fcntl names it from Python 3.10 on
_WIDE_BYTES = 1 << 20


def widen(pipe: int) -> None:
    """Set a pipe's capacity to a megabyte; an ordinary user may have 64 such, and the others stay as they are."""
    with contextlib.suppress(ImportError, OSError):  # Windows; not a pipe, not Linux, or too many
        import fcntl

        fcntl.fcntl(pipe, _F_SETPIPE_SZ, _WIDE_BYTES)
