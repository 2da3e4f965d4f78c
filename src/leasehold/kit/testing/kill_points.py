"""Pause at a named moment until a rehearsal continues it: this is how the kill matrix aims.

LEASEHOLD_PAUSE="FOLDER:EVENT:PHASE" makes the process that reaches PHASE (before, during, after) of
EVENT write FOLDER/reached (its pid) and wait for FOLDER/go. Unset, as always outside rehearsals,
it costs one dictionary look-up.
"""

from __future__ import annotations

import os
import time

_WAIT_LIMIT_S = 60.0


def pause_at(event: str, phase: str) -> None:
    """Pause here if this event and phase were selected, once."""
    aim = os.environ.get("LEASEHOLD_PAUSE")
    if not aim:
        return
    folder, _, rest = aim.partition(":")
    if rest != event + ":" + phase:
        return
    try:
        fd = os.open(os.path.join(folder, "reached"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:  # only the first arrival pauses
        return
    os.write(fd, str(os.getpid()).encode())
    os.close(fd)
    deadline = time.monotonic() + _WAIT_LIMIT_S
    while time.monotonic() < deadline and not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.005)
