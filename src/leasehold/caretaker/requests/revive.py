"""Continue a run after the box was restarted: the action of the resume hook."""

from __future__ import annotations

import os

from leasehold.caretaker.reboot.resume_hook import kept_environment, remove
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.status.observe import observe
from leasehold.caretaker.wire.connection import Refused
from leasehold.kit.files.atomic import read_json

from .start_stop import revive_run


def revive(folder: RunFolder) -> int:
    """Continue the run as it was left; of a run that has ended, only remove the hook."""
    os.environ.update(kept_environment(folder))
    plan = read_json(folder.plan)
    if plan is None:
        return 1
    if observe(folder)["terminal"]:
        remove(folder)
        return 0
    try:
        revive_run(folder, plan)
    except Refused as problem:
        with open(os.path.join(folder.path, "caretaker.err"), "ab") as last_words:
            last_words.write(("relaunch: %s\n" % problem).encode("utf-8", "replace"))
        return 1
    return 0
