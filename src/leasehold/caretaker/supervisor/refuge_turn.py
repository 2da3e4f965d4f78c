"""The caretaker's turn for the refuge: only where the job writes checkpoints and something off the box takes them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .stop import request_stop

if TYPE_CHECKING:
    from .caretaker import Caretaker

_EVERY_S = 0.5
_GRACE_S = 30.0


def mind(caretaker: Caretaker) -> None:
    """Take the refuge's next step; stop a run that another box has."""
    said = caretaker.plan["job"].get("checkpoint") or {}
    now = time.monotonic()
    if not said.get("path") or now < caretaker.refuge_at or not caretaker.settled():
        return
    caretaker.refuge_at = now + _EVERY_S
    if not said.get("refuge") and not caretaker.folder.platform().get("durable"):
        return
    run = caretaker.run
    caretaker.refuge.step(run, caretaker.journal.events, caretaker.signals.clear)
    if run.fenced and run.state == "running":
        grace_s = max(_GRACE_S, 2 * float(said.get("write_s") or 0.0))
        wish = {"id": "superseded-%s" % run.fenced.get("epoch"), "by": "superseded", "grace_s": grace_s}
        if wish["id"] in run.stops:  # it was resumed since, though nobody gave it back
            wish["id"] = "superseded-%s-%d" % (run.fenced.get("epoch"), run.seq)
        request_stop(caretaker.folder, wish)
