"""List what a run left: all files of a cell, files that no artifact pattern matches, files written beside the code."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.uploads.trees import read_tree
from leasehold.caretaker.wire.refused import Refused
from leasehold.kit.files.globbing import Found, compile_pattern, walk
from leasehold.kit.files.manifest import stat_entry

_LISTED = 1000  # unmatched files that are listed by name; more are only counted


def batches(root: str, size: int) -> Iterator[List[Dict[str, Any]]]:
    """Yield the stats of every plain file below a folder in batches of this size."""
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
    """List files that no artifact pattern matches and that will not come home; count those that are not listed."""
    regexes = [compile_pattern(pattern) for pattern in patterns]
    listed, more = _listed(
        (name, entry.path, entry.info.st_size)
        for name, root in places.items()
        for entry in (walk(root) if os.path.isdir(root) else ())
        if not any(regex.match(entry.path) for regex in regexes)
    )
    return {"other": listed, "other_more": more}


def astray(folder: RunFolder, plan: Dict[str, Any], cells: Sequence[str]) -> Dict[str, Any]:
    """List files that no artifact pattern can match: written beside the code, or in `out` but in no cell.

    Their paths begin at the run's folder; `problem` says why they could not be listed.
    """
    try:
        sizes, given = _came_with(folder, plan)
        found = [(cell, "work/" + cell, _foreign(folder.work(cell), sizes, given)) for cell in cells]
        out = os.path.join(folder.path, "out")
        strange = sorted(set(os.listdir(out)) - set(cells)) if os.path.isdir(out) else []
        found += [("*", "out/" + name, _files(os.path.join(out, name))) for name in strange]
        listed, more = _listed(
            (cell, "%s/%s" % (place, one.path) if one.path else place, one.info.st_size)
            for cell, place, files in found
            for one in files
            if one.is_file
        )
    except (OSError, KeyError, Refused) as error:
        return {"files": [], "problem": str(error)}
    return {"files": listed, "more": more}


def _listed(found: Iterable[Tuple[str, str, int]]) -> Tuple[List[Dict[str, Any]], Dict[str, int]]:
    listed: List[Dict[str, Any]] = []
    files = size = 0
    for cell, path, file_bytes in found:
        if len(listed) < _LISTED:
            listed.append({"cell": cell, "path": path, "bytes": file_bytes})
        else:
            files, size = files + 1, size + file_bytes
    return listed, {"files": files, "bytes": size}


def _files(place: str) -> Iterator[Found]:
    return walk(place) if os.path.isdir(place) else iter([Found("", os.lstat(place))])


def beside_the_code(folder: RunFolder, plan: Dict[str, Any], cells: Sequence[str]) -> Dict[str, Optional[str]]:
    """Return for each cell the first file of its working folder that is not from the code; None: it cannot be read.

    No file is the empty text. Python's own caches do not count; what has another size than the code's file does.
    """
    try:
        sizes, given = _came_with(folder, plan)
        first = {cell: next(_foreign(folder.work(cell), sizes, given), None) for cell in cells}
        return {cell: found.path if found else "" for cell, found in first.items()}
    except (OSError, KeyError, Refused):
        return dict.fromkeys(cells)


def _came_with(folder: RunFolder, plan: Dict[str, Any]) -> Tuple[Dict[str, Any], Set[str]]:
    """Return the code's files with their sizes, and the paths of the job's data."""
    given = {str(item["to"]) for item in (plan.get("job") or {}).get("data") or ()}
    return {str(entry["path"]): entry.get("bytes") for entry in read_tree(folder.root, str(plan["tree"]))}, given


def _foreign(work: str, sizes: Dict[str, Any], given: Set[str]) -> Iterator[Found]:
    for found in walk(work) if os.path.isdir(work) else ():
        if "__pycache__" in found.path.split("/") or found.path in given:
            continue
        came = found.path in sizes
        if not came or (sizes[found.path] is not None and sizes[found.path] != found.info.st_size):
            yield found
