"""Arguments that most requests about a run share: the run, its plan, a number; and a hint when a promise is broken."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List

from leasehold.caretaker.wire.refused import Refused
from leasehold.kit.files.paths import UnsafePath

from .run_folder import RunFolder
from .soundness import is_plan, refuse_newer

if TYPE_CHECKING:  # sealing takes a hint from here, without a connection
    from leasehold.caretaker.wire.connection import Request


def folder_of(request: Request) -> RunFolder:
    """Return the folder of the run that a request names; refuse a run that is not here."""
    try:
        folder = RunFolder.below(request.root, str(request.args.get("run")))
    except UnsafePath as error:
        raise Refused("wire.bad_request", str(error)) from None
    if request.args.get("op") not in ("start", "look") and not os.path.exists(folder.plan):
        raise Refused("run.absent", "this box knows no run %s (looked in %s)" % (folder.run, folder.path))
    return folder


def plan_of(request: Request, folder: RunFolder) -> Dict[str, Any]:
    """Read the run's plan, with the promises as home knows them now: those may change after the run."""
    refuse_newer(folder)
    plan = folder.read_plan()
    if plan is None or not is_plan(plan):
        raise Refused("run.damaged", "%s does not hold a plan" % folder.plan)
    asked = request.args.get("patterns")
    if isinstance(asked, list) and asked and all(isinstance(pattern, str) for pattern in asked):
        plan["patterns"] = asked
    return plan


def count_of(request: Request, key: str) -> int:
    """Read a number that is not negative; left out, it is 0."""
    value = request.args.get(key, 0)
    if not isinstance(value, int) or value < 0:
        raise Refused("wire.bad_request", "%s must be a count, not %r" % (key, value))
    return value


def strayed(folder: RunFolder, names: List[str], plan: Dict[str, Any]) -> str:
    """Hint at artifacts written beside the code instead of into LEASE_OUT: the commonest mistake."""
    from leasehold.kit.files.globbing import matching

    for name in names:
        hits = [found.path for hit in matching(folder.work(name), plan["patterns"]) for found in hit]
        if hits:
            return "; %s lies in the working folder: write it into $LEASE_OUT" % hits[0]
    return ""
