"""Prune what the job calls `scratch` when the disk is full: only below the cell's own folder, never best or last.

Runs in a separate child, after the trainer is gone. A promised artifact is never scratch, whatever the patterns match.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Set

from leasehold.caretaker.artifacts.seal import promises
from leasehold.caretaker.process.child_answer import answer
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.work_clock import literal_part
from leasehold.kit.files.globbing import Found, compile_pattern, matching

_CHECKPOINTS = (".pt", ".pth", ".ckpt", ".safetensors", ".bin", ".npz", ".distcp", ".lhc")
_MOST_LISTED = 50


def prune(folder: RunFolder, cell: str) -> int:
    """Remove and answer {files, freed_bytes, kept}."""
    plan = folder.read_plan() or {}
    root = folder.out(cell)
    doomed, kept = choose(root, plan, promises(folder, plan))
    freed = removed = 0
    for found in doomed:
        if _unlink(root, found):
            removed += 1
            freed += found.info.st_blocks * 512
    return answer({"files": removed, "freed_bytes": freed, "kept": sorted(kept)[:_MOST_LISTED]})


def choose(root: str, plan: Dict[str, Any], promised: List[str]) -> Any:
    """Split the files that scratch matches into those to remove and those to keep."""
    job = plan.get("job", {})
    patterns = [str(pattern) for pattern in job.get("scratch") or []]
    checkpoint = str((job.get("checkpoint") or {}).get("path") or "")
    holy = [compile_pattern(pattern) for pattern in promised]
    doomed: Dict[str, Found] = {}
    kept: Set[str] = set()
    for pattern, hits in zip(patterns, matching(root, patterns)):
        last = _last(pattern, hits, checkpoint)
        for found in hits:
            stays = any(regex.match(found.path) for regex in holy) or found.path in last or _is_best(found.path)
            if stays:
                kept.add(found.path)
            else:
                doomed[found.path] = found
    return [found for path, found in sorted(doomed.items()) if path not in kept], kept


def _last(pattern: str, hits: List[Found], checkpoint: str) -> Set[str]:
    """Return the newest checkpoint among them: one file, or the whole folder of a sharded one."""
    regex = compile_pattern(checkpoint) if checkpoint else None
    states = [f for f in hits if f.path.endswith(_CHECKPOINTS) or (regex is not None and regex.match(f.path))]
    if not states:
        return set()
    newest = max(states, key=lambda found: (found.info.st_mtime_ns, found.path))
    folder = os.path.dirname(newest.path)
    if folder == literal_part(os.path.dirname(pattern)):
        return {newest.path}
    return {found.path for found in hits if found.path.startswith(folder + "/")}


def _is_best(path: str) -> bool:
    return any("best" in part.lower() for part in path.split("/"))


def _unlink(root: str, found: Found) -> bool:
    """Remove one entry, reached without following symlinks, if it is still the one that was listed."""
    parts = found.path.split("/")
    fd = os.open(root, os.O_RDONLY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = inner
        now = os.stat(parts[-1], dir_fd=fd, follow_symlinks=False)
        if (now.st_ino, now.st_mtime_ns) != (found.info.st_ino, found.info.st_mtime_ns):
            return False
        os.unlink(parts[-1], dir_fd=fd)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
