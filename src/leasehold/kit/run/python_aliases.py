"""Let a job use `python` or `python3` on any box: images have the one, or the other, or neither on a bare PATH."""

from __future__ import annotations

import os
import sys
from typing import Dict, Mapping, Optional

from leasehold.kit.files.atomic import write_atomic

_NAMES = ("python3", "python")


def with_python(environ: Mapping[str, str], root: str) -> Dict[str, str]:
    """Return the environment with both names on the PATH; the box's own programs always come first.

    Without any Python on the PATH, the folder of ours is appended, so that the programs beside it are found too.
    """
    path = environ.get("PATH") or os.defpath
    found = {name: _which(name, path) for name in _NAMES}
    if all(found.values()):
        return dict(environ)
    if not any(found.values()):
        path = path + os.pathsep + os.path.dirname(sys.executable)
        found = {name: _which(name, path) for name in _NAMES}
    known = next((place for place in found.values() if place), sys.executable)
    shelf = os.path.join(root, "bin")
    for name in (name for name in _NAMES if not found[name]):
        _stand_in(os.path.join(shelf, name), known)
        path = path if path.endswith(os.pathsep + shelf) else path + os.pathsep + shelf
    return {**environ, "PATH": path}


def _stand_in(place: str, known: str) -> None:
    """Write a script; on a noexec disk, a link.

    The script comes first because a virtual environment is not recognised through a link from elsewhere.
    """
    script = b"#!/bin/sh\nexec '%s' \"$@\"\n" % os.fsencode(known).replace(b"'", b"'\\''")
    if _holds(place, script) or (os.path.islink(place) and os.readlink(place) == known):
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    write_atomic(place, script, durable=False, mode=0o755)
    if not os.access(place, os.X_OK):
        temp = "%s.%d.tmp" % (place, os.getpid())
        os.symlink(known, temp)
        os.replace(temp, place)


def _holds(place: str, data: bytes) -> bool:
    try:
        with open(place, "rb") as file:
            return not os.path.islink(place) and file.read() == data and os.access(place, os.X_OK)
    except FileNotFoundError:
        return False


def _which(name: str, path: str) -> Optional[str]:
    """Find a program; shutil would cost every keeper memory."""
    for folder in path.split(os.pathsep):
        place = os.path.join(folder or os.curdir, name)
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    return None
