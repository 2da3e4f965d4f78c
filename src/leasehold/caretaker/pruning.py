"""Throw old code away: trees that no unfinished run uses, and files that no tree has any more."""

from __future__ import annotations

import os
import shutil
import time
from typing import Any, Dict, List, Set

from leasehold.kit.atomic import read_json
from leasehold.kit.paths import NAME

from .blobs import BlobStore
from .layout import RunFolder
from .serve import Request
from .starting import observe

_KEPT_NEWEST = 2  # what the next push will be compared with
_YOUNG_S = 3600.0  # another home may be about to start what it has just pushed


def prune(request: Request) -> None:
    """Remove what nothing uses; with dry_run only say what it would be."""
    now = time.time()
    dry_run = bool(request.args.get("dry_run"))
    old = _unused(request.root, now)
    for path in [] if dry_run else old:
        doomed = path + ".doomed"
        os.rename(path, doomed)  # no half tree may ever go by a whole one's name
        shutil.rmtree(doomed, ignore_errors=True)
    dropped = {"blobs": 0, "bytes": 0} if dry_run else BlobStore(request.root).drop_unused(now - _YOUNG_S)
    names = [os.path.basename(path) for path in old]
    request.reply({"trees": names, "kept": len(_trees(request.root)) - (len(old) if dry_run else 0), **dropped})


def _unused(root: str, now: float) -> List[str]:
    in_use = _in_use(root)
    trees = sorted(_trees(root), key=os.path.getmtime, reverse=True)
    candidates = [path for path in trees[_KEPT_NEWEST:] if now - os.stat(path).st_ctime > _YOUNG_S]
    return [path for path in candidates if os.path.basename(path) not in in_use]


def _trees(root: str) -> List[str]:
    folder = os.path.join(root, "trees")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [
        os.path.join(folder, name) for name in names if len(name) == 64 and os.path.isdir(os.path.join(folder, name))
    ]


def _in_use(root: str) -> Set[str]:
    """Name the trees of runs that go on, or may be resumed; a run whose plan cannot be read keeps them all."""
    folder = os.path.join(root, "active")
    used: Set[str] = set()
    for name in filter(NAME.match, sorted(os.listdir(folder)) if os.path.isdir(folder) else []):
        run = RunFolder.below(root, name)
        plan: Dict[str, Any] = read_json(run.plan) or {}
        if not plan.get("tree"):
            if os.path.exists(run.plan):
                return {os.path.basename(path) for path in _trees(root)}
            continue
        if observe(run)["state"] != "finished":
            used.add(str(plan["tree"]))
    return used
