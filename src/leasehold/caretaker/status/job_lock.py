"""One version of a job at a time: starting or resuming a run takes the job's lock on this box before looking.

Homes look at the box before they ask it to start; between the look and the request another home may start another
version of the job. Here both are one step: the lock is held until the run is open.
"""

from __future__ import annotations

import os
import re
from typing import Any, Mapping

from leasehold.caretaker.process.locks import wait_lock
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.wire.refused import Refused
from leasehold.kit.files.paths import NAME

from .observe import state_of

_WAIT_S = 30.0
_VERSION = re.compile(r"(.+)-[0-9a-f]{10}(?:-\d+)?(?:-b[0-9a-f]{6})?\Z")  # suffix that resolve.run_id adds to the job


class JobTurn:
    """The right to start a version of a job; refuses while another version of it has not ended."""

    def __init__(self, folder: RunFolder, args: Mapping[str, Any]) -> None:
        self._folder = folder
        self._alongside = bool(args.get("alongside"))
        self._fd = -1

    def __enter__(self) -> None:
        place = os.path.join(self._folder.root, "jobs")
        os.makedirs(place, exist_ok=True)
        fd = wait_lock(os.path.join(place, job_of(self._folder.run) + ".lock"), _WAIT_S)
        if fd is None:
            raise Refused("run.busy", "another command has been starting this job for 30 s")
        self._fd = fd
        try:
            if not self._alongside:
                refuse_company(self._folder)
        except BaseException:
            os.close(self._fd)
            raise

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def job_of(run: str) -> str:
    """Return the job's name, as it appears in a run's name."""
    found = _VERSION.match(run)
    return found.group(1) if found else run


def refuse_company(folder: RunFolder) -> None:
    """Refuse if another version of this run's job is on the box and has not ended, or its state is unknown."""
    above = os.path.dirname(folder.path)
    names = sorted(os.listdir(above)) if os.path.isdir(above) else []
    for name in names:
        if name == folder.run or not NAME.match(name) or job_of(name) != job_of(folder.run):
            continue
        seen = state_of(RunFolder(os.path.join(above, name)))
        if not seen["terminal"] and seen["state"] != "absent":
            raise Refused(
                "run.company",
                "%s of the same job is %s on this box; the code or job changed since" % (name, seen["state"]),
                hint="lease watch %s, or lease stop %s, or lease run --alongside" % (name, name),
            )
