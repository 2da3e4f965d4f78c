"""The caretaker's turn for the refuge: only where the job writes checkpoints and something off the box takes them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict

from leasehold.kit.files.atomic import read_json

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
    if caretaker.run.fenced and not _given_back(caretaker):
        _stop(caretaker, said)
    if not said.get("refuge") and not caretaker.folder.platform().get("durable"):
        return
    caretaker.refuge.step(caretaker.run, caretaker.journal.events, caretaker.signals.clear)
    if caretaker.run.fenced:
        _stop(caretaker, said)


def _given_back(caretaker: Caretaker) -> bool:
    """Return whether a person moved the run back to this box: home then hands over a newer epoch."""
    given = (read_json(caretaker.folder.refuge_epoch) or {}).get("epoch")
    if not isinstance(given, int) or given < int(caretaker.run.fenced.get("epoch") or 0):
        return False
    caretaker.note("refuge_regained", epoch=given)
    return True


def _stop(caretaker: Caretaker, said: Dict[str, Any]) -> None:
    """Stop the trainer: what it saves no longer counts."""
    run = caretaker.run
    if run.state != "running":
        return
    grace_s = max(_GRACE_S, 2 * float(said.get("write_s") or 0.0))
    name = "superseded-%s-%d" % (run.fenced.get("epoch"), run.seq)  # again after each resume
    request_stop(caretaker.folder, {"id": name, "by": "superseded", "grace_s": grace_s})
