"""Restore events that a journal has lost and the run's own files still prove: the next caretaker journals them anew.

A caretaker continues from its journal. Where a line of it cannot be read any more, the fold lacks that event: an
attempt that was started, or that the run was opened at all. The attempts' folders still show it, and gaps in the
events' numbers show that something is missing.
"""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, List, Mapping

from leasehold.kit.run.run_state import RunState
from leasehold.kit.run.run_states import FINISHED

from .damaged_journal import missing, went_on
from .run_folder import RunFolder

_ATTEMPT = re.compile(r"attempt-(\d{4,9})\Z")
_ALIVE = ("starting", "running")

Note = Callable[..., None]


def restate(
    folder: RunFolder, plan: Mapping[str, Any], run: RunState, events: List[Dict[str, Any]], note: Note
) -> None:
    """Journal anew what is lost, in terms that every reader knows; `note` folds each event into the run."""
    known = list(events)
    torn = bool(missing(known))
    if torn and run.state == "absent":
        cells = [name for name in plan["cells"] if name not in run.left]
        note("run_opened", plan_sha256=plan["plan_sha256"], cells=cells, detach=run.detach, pid=os.getpid(), again=True)
    if torn and run.terminal and went_on(known):
        note("resumed", by="the caretaker: its attempts went on", detach=run.detach, again=True)
    for name, cell in run.cells.items():
        newest = newest_attempt(folder, name)
        untold = torn and newest == cell.attempt and cell.state not in (*_ALIVE, FINISHED)
        if newest > cell.attempt or (untold and newest and not _has_ended(known, name, newest)):
            note("attempt_starting", cell=name, attempt=newest, again=True)  # its folder shows its outcome


def newest_attempt(folder: RunFolder, cell: str) -> int:
    """Return the number of a cell's newest attempt that a keeper claimed; 0 where there is none."""
    try:
        names = os.listdir(folder.cell(cell))
    except OSError:
        return 0
    found = [int(match.group(1)) for match in map(_ATTEMPT.match, names) if match]
    claimed = [number for number in found if os.path.exists(os.path.join(folder.attempt(cell, number), "claim"))]
    return max(claimed, default=0)


def _has_ended(events: List[Dict[str, Any]], cell: str, attempt: int) -> bool:
    return any(e.get("k") == "attempt_ended" and e.get("cell") == cell and e.get("attempt") == attempt for e in events)
