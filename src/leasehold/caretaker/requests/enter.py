"""Run a person's own command beside a run: in its working folder, with its trainer's environment."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import List

from leasehold.caretaker.process.own_command import own_argv
from leasehold.caretaker.run.request_args import folder_of, plan_of
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.status.observe import observe
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.run.processes import MARK


def how_to_enter(request: Request) -> None:
    """Return how a shell of this box enters a run's environment: a command line, to which words may be added."""
    folder = folder_of(request)
    plan = plan_of(request, folder)
    cell = str(request.args.get("cell") or plan["cells"][0])
    if cell not in plan["cells"]:
        raise Refused("cell.unknown", "%s has no cell %r; its cells: %s" % (folder.run, cell, ", ".join(plan["cells"])))
    if not os.path.isdir(folder.work(cell)):
        raise Refused("cell.not_begun", "cell %s of %s has not begun: it has no folder" % (cell, folder.run))
    request.reply({"argv": own_argv("enter", folder.path, cell), "work": folder.work(cell), "cell": cell})


def enter(folder: RunFolder, cell: str, words: List[str]) -> int:
    """Become the command, or a shell; it does not count as the run's trainer, and stopping the run leaves it alone."""
    from leasehold.caretaker.attempt.keeper import Attempt, own_variables
    from leasehold.caretaker.attempt.platform_shell import outfit_of

    plan = folder.read_plan()
    if plan is None:
        sys.stderr.write("leasehold: %s does not hold a plan\n" % folder.plan)
        return 1
    attempt = int((observe(folder)["cells"].get(cell) or {}).get("attempt") or 1)
    own = own_variables(folder, plan["job"], Attempt(cell, attempt))
    for name in (MARK, "LEASE_SAVE_REQUEST"):
        own.pop(name, None)
    os.chdir(folder.work(cell))
    argv = words or [os.environ.get("SHELL") or "/bin/sh"]
    due = os.path.join(tempfile.mkdtemp(prefix="leasehold-enter-"), "due")
    dressed = outfit_of(folder, plan, own).dress(argv, own_argv("settle"), due)
    if dressed.argv == argv:
        os.rmdir(os.path.dirname(due))
    try:
        os.execvpe(dressed.argv[0], dressed.argv, dressed.environ)
    except OSError as error:
        sys.stderr.write("leasehold: %s: %s\n" % (dressed.argv[0], error.strerror))
        return 127
