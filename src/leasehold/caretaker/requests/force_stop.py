"""Wake a run's suspended or stuck caretaker if possible, and end its trainers without it.

A caretaker that was stopped by a signal goes on when it is continued. One that hangs in the kernel (a stuck disk) or
under a debugger does not; then the request itself ends the trainers, and the record of it comes later.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, Dict, List

from leasehold.caretaker.attempt.find_keeper import SUSPENDED, keeper_of
from leasehold.caretaker.process.end_processes import processes_of, signal_all
from leasehold.caretaker.run import ownership
from leasehold.caretaker.run.lock_owner import caretaker_identity
from leasehold.caretaker.run.request_args import folder_of
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.status.observe import observe, proof_age_s
from leasehold.caretaker.wire.connection import Request
from leasehold.kit.files.atomic import read_json
from leasehold.kit.run.processes import Process, look

_KILLED_S = 3.0  # the longest that a killed process may take to disappear


def wake(folder: RunFolder) -> List[Dict[str, Any]]:
    """Continue the run's caretaker and keepers where they were suspended; return those."""
    woken = [guard for guard in guards(folder) if guard["state"] == SUSPENDED]
    for guard in woken:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(guard["pid"], signal.SIGCONT)
    return woken


def guards(folder: RunFolder) -> List[Dict[str, Any]]:
    """List the live caretaker and keepers of a run, with their process states in the kernel."""
    found = []
    who = caretaker_identity(folder)
    caretaker = look(int(who[0])) if who else None
    if who and caretaker is not None and caretaker.started == who[1]:
        found.append(("caretaker", caretaker))
    for name in sorted((folder.read_plan() or {}).get("cells", ())):
        keeper = keeper_of(folder, name)
        if keeper is not None:
            found.append(("keeper", keeper))
    return [{"what": what, "pid": one.pid, "state": one.state} for what, one in found if not one.gone]


def end_by_force(request: Request) -> None:
    """End the run's trainers without its caretaker: TERM, the grace, KILL; report what is left, and who is silent."""
    folder = folder_of(request)
    ownership.require(folder, request.args)
    seen = observe(folder)
    trainers = [(cell["pid"], cell["started"]) for cell in seen["cells"].values() if cell["pid"]]

    def living() -> List[Process]:
        return processes_of(trainers, folder.mark())

    alive = begun = living()
    for number, limit_s in (
        (signal.SIGTERM, float(request.args.get("grace_s", 5))),
        (signal.SIGKILL, _KILLED_S),
    ):
        signal_all(alive, 0, number)
        until = time.monotonic() + limit_s
        while alive and time.monotonic() < until:
            time.sleep(0.05)
            alive = living()
    request.reply(
        {
            "ended": sorted({one.pid for one in begun} - {one.pid for one in alive}),
            "left": [{"pid": one.pid, "state": one.state} for one in alive],
            "guards": guards(folder),
            "proof_age_s": proof_age_s(read_json(folder.status) or {}),
        }
    )
