"""Requests about processes in a run's folders: list them, and record which one a person called harmless."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from leasehold.caretaker.run import ownership
from leasehold.caretaker.run.lock_owner import caretaker_identity
from leasehold.caretaker.run.request_args import folder_of
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.status.observe import observe
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.run.processes import boot_id, is_alive

_MOST = 100


def occupants_of(folder: RunFolder, seen: Mapping[str, Any]) -> Dict[str, Any]:
    """List processes in a run's folders beside its live trainers, and those that may not be inspected."""
    from leasehold.caretaker.status.occupants import look_around  # few connections ask

    who = caretaker_identity(folder)
    trainers = [int(cell["pid"]) for cell in seen["cells"].values() if cell.get("alive")]
    found = look_around(folder, "", int(who[0]) if who and not trainers else 0, trainers)
    listed = [one.as_dict() for one in found.occupants[:_MOST]]
    more = len(found.occupants) - len(listed)
    return {"occupants": listed, "occupants_more": more, "unread": found.unread[:_MOST]}


def occupants(request: Request) -> None:
    """Answer the occupants alone."""
    folder = folder_of(request)
    request.reply(occupants_of(folder, observe(folder)))


def clear_occupant(request: Request) -> None:
    """Record that a person called one process harmless: no attempt and no seal waits for it any more."""
    folder = folder_of(request)
    ownership.require(folder, request.args)
    pid, started = int(request.args.get("pid", 0)), str(request.args.get("started", ""))
    if request.args.get("boot") != boot_id() or not is_alive(pid, started):
        raise Refused("process.gone", "process %d is gone, or another one has its number by now" % pid)
    before = (read_json(folder.cleared) or {}).get("processes") or []
    kept = [one for one in before if one.get("boot") == boot_id() and is_alive(int(one["pid"]), str(one["started"]))]
    write_json(folder.cleared, {"processes": [*kept, {"pid": pid, "started": started, "boot": boot_id()}]})
    request.reply({"cleared": pid})
