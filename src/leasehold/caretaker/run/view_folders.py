"""The folders of stable views: links that hold what a trainer replaced, until nobody reads them any more."""

from __future__ import annotations

import contextlib
import os
import time

from leasehold.caretaker.process.locks import try_lock

from .run_folder import RunFolder

_KEPT_S = 600.0  # a view whose connection was cut, so that the next one may continue with it


def views_of(folder: RunFolder) -> str:
    """Return the folder of a run's views."""
    return os.path.join(folder.path, "views")


def expire(folder: RunFolder, kept_s: float = _KEPT_S) -> None:
    """Remove views that nobody holds and nobody came back for."""
    try:
        names = os.listdir(views_of(folder))
    except OSError:
        return
    for name in names:
        path = os.path.join(views_of(folder), name)
        if name.endswith(".lock"):
            continue
        with contextlib.suppress(OSError):
            if time.time() - os.lstat(path).st_mtime < kept_s:
                continue
            lock = try_lock(path + ".lock")
            if lock is not None:
                remove(path)
                os.unlink(path + ".lock")
                os.close(lock)


def remove(path: str) -> None:
    """Remove a view; what cannot be removed now is removed later."""
    for place, folders, files in os.walk(path, topdown=False):  # shutil costs the caretaker half a megabyte
        for name in files:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(place, name))
        for name in folders:
            inner = os.path.join(place, name)
            with contextlib.suppress(OSError):
                (os.unlink if os.path.islink(inner) else os.rmdir)(inner)
    with contextlib.suppress(OSError):
        os.rmdir(path)
