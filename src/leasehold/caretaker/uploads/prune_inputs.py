"""Delete uploaded data that no unfinished run uses; a partial upload is kept for a day."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Dict, List, Optional, Set

from leasehold.kit.files.code_tree import read_tree_text

from .input_store import COMING, LIST, Inputs, read_listing

_YOUNG_S = 3600.0  # a home may be about to start what it has just uploaded
_CUT_KEPT_S = 86400.0


def prune_data(root: str, in_use: Optional[Set[str]], now: float, *, dry_run: bool) -> Dict[str, int]:
    """Remove trees, then the files that no tree has; return how many and their size. Unreadable list: nothing."""
    inputs, nothing = Inputs(root), {"data": 0, "data_files": 0, "data_bytes": 0}
    if in_use is None or not os.path.isdir(inputs.trees):
        return nothing
    old, kept = _sorted_out(inputs, in_use, now)
    used = _files_of(inputs, kept)
    if used is None:
        return nothing
    if not dry_run:
        for name in old:
            os.unlink(os.path.join(inputs.trees, name))  # first: a folder without its list is not complete
            _remove_view(inputs.view(name.partition(".")[0])) if name.endswith(LIST) else None
    files = size = 0
    for path in _all_files(inputs):
        if os.path.basename(path) not in used:
            with contextlib.suppress(OSError):
                size += os.lstat(path).st_size
                if not dry_run:
                    os.unlink(path)
                files += 1
    return {"data": sum(name.endswith(LIST) for name in old), "data_files": files, "data_bytes": size}


def _sorted_out(inputs: Inputs, in_use: Set[str], now: float) -> "tuple[List[str], List[str]]":
    old: List[str] = []
    kept: List[str] = []
    for name in sorted(os.listdir(inputs.trees)):
        tree, ending = os.path.splitext(name)
        if ending not in (LIST, COMING):
            continue
        age_s = now - os.stat(os.path.join(inputs.trees, name)).st_mtime
        young = age_s < (_YOUNG_S if ending == LIST else _CUT_KEPT_S)
        (kept if young or tree in in_use else old).append(name)
    return old, kept


def _files_of(inputs: Inputs, lists: List[str]) -> Optional[Set[str]]:
    used: Set[str] = set()
    for name in lists:
        tree, ending = os.path.splitext(name)
        text = read_listing(inputs, tree, ending)
        try:
            used |= {str(entry["sha256"]) for entry in read_tree_text(text or b"", tree)}
        except (ValueError, KeyError, TypeError):
            return None  # its files are unknown
    return used


def _all_files(inputs: Inputs) -> List[str]:
    tops = (inputs.parts, os.path.join(inputs.folder, "blobs"))
    return [os.path.join(where, name) for top in tops for where, _, names in os.walk(top) for name in names]


def _remove_view(view: str) -> None:
    """Remove a folder of data; its folders are not writable."""
    for where, _, _ in os.walk(view):
        with contextlib.suppress(OSError):
            os.chmod(where, 0o755)
    shutil.rmtree(view, ignore_errors=True)
