"""Signs of the platform that this box is rented from: variables, files, mounts. Only names are looked at."""

from __future__ import annotations

import os
from typing import Dict, Iterable, List, Optional, Sequence, Set

YES, NO, UNKNOWN = "yes", "no", "unknown"
_FIRST_PROCESS = "/proc/1/environ"  # the container's own variables are here; ssh sessions often lack them
_MOUNTS = "/proc/self/mounts"


def read(asked: Iterable[Sequence[str]]) -> List[Dict[str, str]]:
    """Answer each (kind, value) with yes, no or unknown; unknown where it could not be checked."""
    answers = {"env": _variable, "file": _file, "mount": _mount}
    return [
        {"kind": kind, "value": value, "seen": answers[kind](value) if kind in answers else UNKNOWN}
        for kind, value in asked
    ]


def _variable(name: str) -> str:
    if name in os.environ:
        return YES
    first = _first_names()
    if first is None:
        return UNKNOWN
    return YES if name in first else NO


def _first_names() -> Optional[Set[str]]:
    """Return the names of the first process's variables, without values. None when they cannot be read."""
    try:
        with open(_FIRST_PROCESS, "rb") as file:
            data = file.read()
    except OSError:
        return None
    return {part.split(b"=", 1)[0].decode("utf-8", "replace") for part in data.split(b"\0") if part}


def _file(path: str) -> str:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return NO
    except OSError:
        return UNKNOWN
    return YES


def _mount(path: str) -> str:
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as file:
            points = [line.split()[1] for line in file if len(line.split()) > 2]
    except OSError:
        return UNKNOWN
    return YES if path in points else NO
