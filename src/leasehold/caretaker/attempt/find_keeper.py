"""Find the keeper of a cell's newest attempt, and continue one that was suspended."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Optional

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.run.processes import Process, look

SUSPENDED = "T"


def keeper_of(folder: RunFolder, cell: str) -> Optional[Process]:
    """Find the keeper of a cell's newest attempt by the pid in the claim and by its command line."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        newest = sorted(name for name in os.listdir(folder.cell(cell)) if name.startswith("attempt-"))[-1]
        with open(os.path.join(folder.cell(cell), newest, "claim")) as file:
            pid = int(file.read())
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            words = file.read().split(b"\0")
        if b"keep" in words and os.fsencode(folder.address) in words:
            return look(pid)
    return None


def continue_keeper(folder: RunFolder, cell: str) -> int:
    """Continue the keeper if it is suspended; return its pid, 0 if there was nothing to do."""
    keeper = keeper_of(folder, cell)
    if keeper is None or keeper.state != SUSPENDED:
        return 0
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(keeper.pid, signal.SIGCONT)
        return keeper.pid
    return 0
