"""Home reports that a run's results are there and verified: from then on only the meter needs reminders, for a day."""

from __future__ import annotations

import time

from leasehold.caretaker.run import ownership
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.wire.connection import Request
from leasehold.kit.files.atomic import write_json
from leasehold.kit.files.paths import check_name

from .start_stop import StartLock


def pulled(request: Request) -> None:
    """Record which ending of the run is home."""
    folder = RunFolder.below(request.root, check_name(request.args.get("run"), "run"))
    with StartLock(folder):
        ownership.require(folder, request.args)
        write_json(folder.pulled, {"seq": int(request.args.get("seq") or 0), "at_unix": round(time.time(), 3)})
    request.reply({"pulled": folder.run})
