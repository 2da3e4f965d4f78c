"""Read files in full and return their hashes: times and inodes prove nothing about bytes written through mmap.

Files are read through the page cache, so that writes that have not reached the disk yet are seen too.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List

from leasehold.caretaker.run.request_args import folder_of
from leasehold.caretaker.wire.connection import Request
from leasehold.kit.files.globbing import Found
from leasehold.kit.files.manifest import stat_entry
from leasehold.kit.files.paths import UnsafePath, open_below
from leasehold.kit.files.sha256 import blocks, hash_blocks
from leasehold.kit.wire.frames import ENTRIES_A_FRAME

from .hash_cache import HashMemory

_SAY_EVERY_S = 0.5


class _Abandoned(Exception):
    """Home disconnected or wants no more."""


def prove(request: Request) -> None:
    """Read each of `items` [cell, path]; reply {entries} of path, sums and stats, and {upto} bytes as it goes.

    A cached sum that turns out wrong is forgotten: the next pull reads that file anew.
    """
    folder = folder_of(request)
    memory = HashMemory(os.path.join(folder.path, "hashes.json"))
    done: List[Dict[str, Any]] = []
    said_at, upto = time.monotonic(), 0

    def tick(count: int) -> None:
        nonlocal said_at, upto
        upto += count
        if request.gone or request.left:
            raise _Abandoned
        if time.monotonic() - said_at >= _SAY_EVERY_S:
            said_at = time.monotonic()
            request.reply({"upto": upto})

    try:
        for cell, path in request.args.get("items") or ():
            entry = read_whole(folder.out(str(cell)), str(path), tick)
            if "sha256" in entry:
                memory.doubt("%s/%s" % (cell, path), entry["sha256"])
            done.append(dict(entry, cell=str(cell)))
            if len(done) >= ENTRIES_A_FRAME:
                request.reply({"entries": done, "upto": upto})
                done = []
    except _Abandoned:
        return
    finally:
        memory.save_doubts()
    request.reply({"entries": done, "upto": upto})


def read_whole(root: str, path: str, tick: Callable[[int], None]) -> Dict[str, Any]:
    """Hash one file to its end; return its stats and sum, or the `problem` that prevented reading it."""
    try:
        fd = open_below(root, path)
    except (OSError, UnsafePath) as error:
        return {"path": path, "problem": "cannot be opened: %s" % error}
    with os.fdopen(fd, "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        try:
            _, sha256 = hash_blocks(blocks(file.read), before.st_size, each=lambda block: tick(len(block)))
        except OSError as error:
            return {"path": path, "problem": "cannot be read: %s" % error}
        after = os.fstat(file.fileno())
    if stat_entry(Found(path, before)) != stat_entry(Found(path, after)):
        return {"path": path, "problem": "is being changed: its size or times moved while it was read"}
    return dict(stat_entry(Found(path, after)), sha256=sha256)
