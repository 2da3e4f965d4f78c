"""Find the biggest folders and files below a path, symlinks resolved, within a time limit."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Set, Tuple

_KEPT = 12


def find(path: str, limit_s: float) -> Dict[str, Any]:
    """Sum each entry directly below path, following each link out of it once; stop when the time is up."""
    deadline = time.monotonic() + limit_s
    root = os.path.realpath(os.path.expanduser(path))
    found: List[Dict[str, Any]] = []
    seen: Set[Tuple[int, int]] = set()
    complete = True
    for entry in _entries(root):
        size, files, whole = _sum(os.path.realpath(entry.path), seen, deadline)
        complete = complete and whole
        target = os.path.realpath(entry.path)
        found.append({"path": entry.path, "bytes": size, "files": files, "real": target if entry.is_symlink() else ""})
        if time.monotonic() > deadline:
            complete = False
            break
    found.sort(key=lambda item: -int(item["bytes"]))
    return {"path": root, "hogs": found[:_KEPT], "complete": complete}


def _entries(path: str) -> List["os.DirEntry[str]"]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except OSError:
        return []


def _device(path: str) -> int:
    try:
        return os.lstat(path).st_dev
    except OSError:
        return -1


def _sum(path: str, seen: Set[Tuple[int, int]], deadline: float) -> Tuple[int, int, bool]:
    total = files = 0
    stack = [path]
    device = _device(path)
    while stack:
        if time.monotonic() > deadline:
            return total, files, False
        current = stack.pop()
        try:
            info = os.lstat(current)
        except OSError:
            continue
        identity = (info.st_dev, info.st_ino)
        if identity in seen:
            continue
        seen.add(identity)
        if info.st_dev != device:  # another disk mounted below this one does not fill it
            continue
        total += info.st_blocks * 512
        files += 1
        if os.path.isdir(current) and not os.path.islink(current):
            stack.extend(entry.path for entry in _entries(current))
    return total, files, True
