"""What lies in out/ folders: every plain file of a cell, and what no artifact pattern names."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List

from leasehold.kit.manifest import stat_entry
from leasehold.kit.match import compile_pattern, walk

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
