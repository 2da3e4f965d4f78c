"""Claims for a sweep over several boxes: home holds the run on each box before it assigns cells there."""

from __future__ import annotations

import os

from leasehold.caretaker.run import ownership
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.slurm import engine as slurm
from leasehold.caretaker.status.observe import observe
from leasehold.caretaker.supervisor import roster
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.files.atomic import read_json
from leasehold.kit.files.paths import check_name

from .start_stop import StartLock


def claim(request: Request) -> None:
    """Hold a run that has no holder, begun or not; reply whether it is `mine` and its state. Idempotent."""
    folder = RunFolder.below(request.root, check_name(request.args.get("run"), "run"))
    os.makedirs(folder.path, exist_ok=True)
    with StartLock(folder):
        mine = ownership.claim(folder, request.args)
        request.reply(dict(observe(folder), mine=mine))


def unclaim(request: Request) -> None:
    """Release a claim on which nothing was begun."""
    folder = RunFolder.below(request.root, check_name(request.args.get("run"), "run"))
    if os.path.isdir(folder.path):
        with StartLock(folder):
            ownership.unclaim(folder, request.args)
    request.reply({})


def release(request: Request) -> None:
    """Give cells to another box: those that have not begun, and with `withdraw` those that have."""
    folder = RunFolder.below(request.root, check_name(request.args.get("run"), "run"))
    plan = read_json(folder.plan)
    if plan is None or slurm.is_slurm(plan):
        raise Refused("run.absent", "this box has no run %s that could give cells back" % folder.run)
    with StartLock(folder):
        ownership.require(folder, request.args)
        wish = {key: [str(name) for name in request.args.get(key) or []] for key in ("release", "withdraw")}
        to = str(request.args.get("to") or "")
        request.reply({"released": roster.give_back(folder, dict(wish, **({"to": to} if to else {})))})
