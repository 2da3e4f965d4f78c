"""Identity of the caretaker, written into the lock that it holds."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from leasehold.caretaker.process.locks import is_held
from leasehold.kit.files.file_lock import ghost_holders
from leasehold.kit.run.processes import boot_id, look

from .run_folder import RunFolder


def sign(lock: int) -> Dict[str, Any]:
    """Write our identity into the lock that we hold, and return it."""
    me = look(os.getpid())
    who = {"pid": os.getpid(), "started": me.started if me else "", "boot": boot_id()}
    os.ftruncate(lock, 0)
    os.pwrite(lock, ("%(pid)d %(started)s\n" % who).encode(), 0)
    return who


def caretaker_identity(folder: RunFolder) -> Optional[List[str]]:
    """Return [pid, started] of the live caretaker, or None."""
    if not is_held(folder.caretaker_lock):
        return None
    try:
        with open(folder.caretaker_lock) as file:
            words = file.read().split(None, 1)
    except FileNotFoundError:
        words = []
    if len(words) == 2:
        return [words[0], words[1].strip()]
    for holder in filter(None, map(look, ghost_holders(folder.caretaker_lock))):  # its lock's file was deleted
        return [str(holder.pid), holder.started]
    return None
