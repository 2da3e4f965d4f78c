"""Dependencies of a run before it starts: jobs by number, or another run of ours by name."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.slurm_queue.commands import SlurmRefused
from leasehold.caretaker.slurm_queue.gather import Gatherer
from leasehold.caretaker.slurm_queue.submit import submissions
from leasehold.kit.files.atomic import read_json
from leasehold.kit.files.paths import NAME
from leasehold.kit.run.run_states import FAILED, FINISHED

_NUMBER = re.compile(r"\d+(?:_\d+)?\Z")
_SPELLED = re.compile(r"(?:after|afterany|afterok|afternotok|aftercorr):|singleton\Z")
_SHOWN = 8


def dependency(folder: RunFolder, wishes: Dict[str, Any]) -> str:
    """Build sbatch's dependency list; "" when nothing is left to wait for."""
    found: List[str] = []
    for word in wishes.get("after") or []:
        if _NUMBER.match(word):
            found.append("afterok:" + word)
        elif _SPELLED.match(word):
            found.append(word)
        else:
            found += _after_run(_run_named(folder, word))
    return ",".join(found)


def _run_named(folder: RunFolder, word: str) -> RunFolder:
    """Find a run on this cluster by its id, or the newest one of the job of that name."""
    place = os.path.join(folder.root, "active")
    names = [name for name in os.listdir(place) if NAME.match(name) and name != folder.run]
    known = {name: read_json(os.path.join(place, name, "plan.json")) for name in names}
    ours = {name: plan for name, plan in known.items() if plan is not None and plan.get("engine") == "slurm"}
    matching = [name for name, plan in ours.items() if name == word or plan.get("job", {}).get("name") == word]
    if not matching:
        shown = ", ".join(sorted(ours)[:_SHOWN]) or "none"
        raise SlurmRefused("slurm.after names %r, but no run on this cluster has that name; it has: %s" % (word, shown))
    return RunFolder(os.path.join(place, max(matching, key=lambda name: _begun(os.path.join(place, name)))))


def _begun(path: str) -> float:
    return os.stat(os.path.join(path, "plan.json")).st_mtime


def _after_run(other: RunFolder) -> List[str]:
    """Wait for every job that still works on the run's cells; a run that ended badly is refused."""
    run = Gatherer(other).gather()
    if run.state == FINISHED:
        return []
    if run.terminal:
        raise SlurmRefused(
            "slurm.after waits for %s, which has %s (%s): fix and run it first" % (other.run, run.state, run.reason)
        )
    left = {name for name, cell in run.cells.items() if cell.state not in (FINISHED, FAILED)}
    newest = {cell: one.job for one in submissions(other) if one.job and not one.withdrawn for cell in one.cells}
    jobs = sorted({newest[name] for name in left if name in newest}, key=int)
    if not jobs:
        raise SlurmRefused("slurm.after waits for %s, which has no job in the queue: lease run it first" % other.run)
    return ["afterok:" + ":".join(jobs)]
