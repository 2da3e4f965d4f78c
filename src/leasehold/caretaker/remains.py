"""What a run left: every file of a cell, what no artifact pattern names, what it wrote beside its code."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set

from leasehold.kit.manifest import stat_entry
from leasehold.kit.match import compile_pattern, walk

from .layout import RunFolder
from .refusing import Refused
from .trees import read_tree

_LISTED = 1000  # files without a promise that are named; more are counted


def batches(root: str, size: int) -> Iterator[List[Dict[str, Any]]]:
    """Yield the stats of every plain file below a folder, so many at a time."""
    batch: List[Dict[str, Any]] = []
    for found in walk(root) if os.path.isdir(root) else ():
        if found.is_file:
            batch.append(stat_entry(found))
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch


def unpromised(places: Dict[str, str], patterns: List[str]) -> Dict[str, Any]:
    """List files that no artifact pattern names, which will not come home; what is not listed is counted."""
    regexes = [compile_pattern(pattern) for pattern in patterns]
    listed: List[Dict[str, Any]] = []
    more = {"files": 0, "bytes": 0}
    for name, root in places.items():
        for entry in walk(root) if os.path.isdir(root) else ():
            if any(regex.match(entry.path) for regex in regexes):
                continue
            if len(listed) < _LISTED:
                listed.append({"cell": name, "path": entry.path, "bytes": entry.info.st_size})
            else:
                more = {"files": more["files"] + 1, "bytes": more["bytes"] + entry.info.st_size}
    return {"other": listed, "other_more": more}


def beside_the_code(folder: RunFolder, plan: Dict[str, Any], cells: Sequence[str]) -> Dict[str, Optional[str]]:
    """Name for each cell the first file of its working folder that did not come with the code; None: it cannot be read.

    No file is the empty text. Python's own caches do not count; what has another size than the code's file does.
    """
    given = {str(item["to"]) for item in (plan.get("job") or {}).get("data") or ()}
    try:
        sizes = {str(entry["path"]): entry.get("bytes") for entry in read_tree(folder.root, str(plan["tree"]))}
        return {cell: _first_foreign(folder.work(cell), sizes, given) for cell in cells}
    except (OSError, KeyError, Refused):
        return dict.fromkeys(cells)


def _first_foreign(work: str, sizes: Dict[str, Any], given: Set[str]) -> str:
    for found in walk(work) if os.path.isdir(work) else ():
        if "__pycache__" in found.path.split("/") or found.path in given:
            continue
        came = found.path in sizes
        if not came or (sizes[found.path] is not None and sizes[found.path] != found.info.st_size):
            return found.path
    return ""
