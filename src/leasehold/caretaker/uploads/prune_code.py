"""Delete old code: trees that no unfinished run uses, and files that no tree has any more."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional, Set

from leasehold.caretaker.run.run_folder import runs_below
from leasehold.caretaker.status.observe import state_of
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.files.atomic import read_json

from .blobs import BlobStore
from .prune_inputs import prune_data
from .trees import COMING, LIST, blobs_named, trees_locked

_KEPT_NEWEST = 2  # what the next push will be compared with
_YOUNG_S = 3600.0  # another home may be about to start what it has just pushed


def prune(request: Request) -> None:
    """Remove what nothing uses; with dry_run only report it."""
    now = time.time()
    dry_run = bool(request.args.get("dry_run"))
    with trees_locked(request.root):
        old = _unused(request.root, now)
        for path in [] if dry_run else old:
            os.unlink(path)
        kept = [path for path in _lists(request.root, LIST) if path not in old]
        used = _blobs_of(kept + _lists(request.root, COMING))
        blobs = BlobStore(request.root)
        dropped = blobs.drop_unused(used, now - _YOUNG_S, dry_run) if used is not None else {"blobs": 0, "bytes": 0}
    data = prune_data(request.root, _data_in_use(request.root), now, dry_run=dry_run)
    names = [os.path.basename(path)[: -len(LIST)] for path in old]
    request.reply({"trees": names, "kept": len(kept), **dropped, **data})


def _unused(root: str, now: float) -> List[str]:
    in_use = _in_use(root)
    if in_use is None:
        return []
    lists = sorted(_lists(root, LIST), key=os.path.getmtime, reverse=True)
    candidates = [path for path in lists[_KEPT_NEWEST:] if now - os.stat(path).st_ctime > _YOUNG_S]
    return [path for path in candidates if os.path.basename(path)[: -len(LIST)] not in in_use]


def _lists(root: str, ending: str) -> List[str]:
    folder = os.path.join(root, "trees")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(ending)]


def _blobs_of(lists: List[str]) -> Optional[Set[str]]:
    """List every file that a tree has; None when a list cannot be read: then it is unknown what is unused."""
    used: Set[str] = set()
    for path in lists:
        try:
            used |= blobs_named(path)
        except (OSError, Refused, RecursionError):
            return None
    return used


def _in_use(root: str) -> Optional[Set[str]]:
    """List the trees of runs that go on, or may be resumed; None when a run's plan cannot be read: keep them all."""
    plans = _unfinished(root)
    return None if plans is None else {str(plan["tree"]) for plan in plans}


def _data_in_use(root: str) -> Optional[Set[str]]:
    """List the uploaded data of the same runs."""
    plans = _unfinished(root)
    if plans is None:
        return None
    return {str(item["sha256"]) for plan in plans for item in (plan.get("job") or {}).get("data") or ()}


def _unfinished(root: str) -> Optional[List[Dict[str, Any]]]:
    plans: List[Dict[str, Any]] = []
    for run in runs_below(root):
        plan: Dict[str, Any] = read_json(run.plan) or {}
        if not plan.get("tree"):
            if os.path.exists(run.plan):
                return None
            continue
        if state_of(run)["state"] != "finished":
            plans.append(plan)
    return plans
