"""Send a cell's newest checkpoint to the durable tier, hashed while it is read and read back. Runs in a child."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Dict, List

from leasehold.caretaker.process.child_answer import answer
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import replacing, write_all, write_json
from leasehold.kit.files.globbing import Found, matching
from leasehold.kit.files.paths import UnsafePath, open_below
from leasehold.kit.files.read_back import sha256_of
from leasehold.kit.files.sha256 import blocks, hash_blocks

from .durable_copier import why_not
from .durable_watch import target_of


def rescue(folder: RunFolder, cell: str) -> int:
    """Answer {to, how, files, bytes, state_unix}, {} when there is nothing to send, or {problem}."""
    plan = folder.read_plan() or {}
    platform = folder.platform()
    why = why_not(platform, folder.path)
    if why:
        return answer({})
    found = newest_state(folder.out(cell), str((plan.get("job", {}).get("checkpoint") or {}).get("path") or ""))
    if not found:
        return answer({})
    to = os.path.join(target_of(platform), "rescued", folder.run, cell)
    try:
        return answer(_send(folder.out(cell), found, to))
    except (OSError, UnsafePath) as error:
        return answer({"problem": "the newest checkpoint could not be sent to %s: %s" % (to, error)})


def newest_state(root: str, pattern: str) -> List[Found]:
    """List the files of the newest checkpoint: one file, or all files in the folder of a sharded one."""
    if not pattern:
        return []
    try:
        hits = [one for listed in matching(root, [pattern, pattern + "/**"]) for one in listed if one.is_file]
    except OSError:
        return []
    whole = [one for one in hits if not os.path.basename(one.path).startswith(".") and one.info.st_size]
    if not whole:
        return []
    newest = max(whole, key=lambda one: (one.info.st_mtime_ns, one.path))
    folder = os.path.dirname(newest.path)
    together = [one for one in whole if os.path.dirname(one.path) == folder]
    return together if _is_sharded(folder) else [newest]


def _is_sharded(folder: str) -> bool:
    """Return whether a folder is one checkpoint: torch DCP, a framework's own, or named like checkpoint-500."""
    name = os.path.basename(folder)
    return name.endswith((".dcp", ".saved")) or name.startswith(("checkpoint-", "step-", "global_step"))


def _send(root: str, found: List[Found], to: str) -> Dict[str, Any]:
    sums = {}
    for one in found:
        sums[one.path] = _copy(root, one, os.path.join(to, one.path))
    state_unix = max(one.info.st_mtime for one in found)
    total = sum(one.info.st_size for one in found)
    write_json(os.path.join(to, "rescued.json"), {"files": sums, "state_unix": state_unix})
    how = "its newest checkpoint, read back"
    return {"to": to, "how": how, "files": len(found), "bytes": total, "state_unix": state_unix}


def _copy(root: str, found: Found, to: str) -> str:
    os.makedirs(os.path.dirname(to), exist_ok=True)
    source = open_below(root, found.path)
    try:
        with replacing(to, to + ".part") as fd:
            _, sha256 = hash_blocks(blocks(partial(os.read, source)), each=partial(write_all, fd))
    finally:
        os.close(source)
    if sha256_of(to, lambda count: None) != sha256:
        os.unlink(to)
        raise OSError("%s reads back differently" % to)
    return sha256
