"""Power the box off from inside: only when no process of ours lives, and only after home has the answer."""

from __future__ import annotations

import os
import subprocess
from typing import List

from leasehold.caretaker.run import ownership
from leasehold.caretaker.run.run_folder import runs_below
from leasehold.caretaker.status.observe import observe
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.run.processes import boot_id, marked

_ALLOWED = ("shutdown", "poweroff", "halt")
_PLACES = "/usr/bin:/bin:/usr/sbin:/sbin"
_GO = 'sleep 3; exec "$@"'  # the answer is on its way by then, also from a busy box


def power_off(request: Request) -> None:
    """Answer first, then power off; refused while a trainer of any run lives."""
    import shutil  # lazily: it brings bz2 and lzma, and every connection would pay

    command = [str(word) for word in request.args.get("command") or ["shutdown"]]
    name = os.path.basename(command[0])
    if name not in _ALLOWED:
        raise Refused("box.odd_command", "%s does not power a box off" % name)
    for run in runs_below(request.root):
        ownership.require(run, request.args)
    busy = _busy(request.root)
    if busy:
        raise Refused("box.busy", "%s still has live processes here" % ", ".join(busy[:3]))
    where = shutil.which(name, path=_PLACES) or shutil.which(command[0])  # the system's own before any other on PATH
    if where is None:
        raise Refused("box.no_shutdown", "this box has no %s; power it off in the console" % name)
    request.reply({"going": True, "command": [where] + command[1:], "boot": boot_id()})
    subprocess.Popen(
        ["/bin/sh", "-c", _GO, "sh", where] + command[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True, cwd="/",
    )  # fmt: skip


def _busy(root: str) -> List[str]:
    return [
        run.run
        for run in runs_below(root)
        if marked(run.mark()) or any(cell["alive"] for cell in observe(run)["cells"].values())
    ]
