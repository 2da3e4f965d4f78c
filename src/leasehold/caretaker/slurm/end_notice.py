"""Report the end of a run whose cells end independently: the last cell does it, once.

Every cell reports only its own events. The one that finds that all have ended gathers the run and reports its end;
the run's outbox remembers that it was reported, so that two last cells report it once.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Optional

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json, write_json

if TYPE_CHECKING:
    from leasehold.caretaker.notices.dispatcher import Watcher

_TELL_WITHIN_S = 30.0
_STEP_S = 0.2
_LOOK_LEFT = 20  # with so few left, some may have ended unrecorded: Slurm is asked, where there is a channel
_ENDED = os.path.join("slurm", "ended")  # one file for every ended cell
_EXPECTED = os.path.join("slurm", "expected.json")


def is_of_cell(kind: str) -> bool:
    """Return whether a cell reports this event of its journal itself; the start and end of its care it does not."""
    return not kind.startswith("run_") and kind != "resumed"


def is_of_run(kind: str) -> bool:
    """Return whether the last cell reports this event of the gathered journal."""
    return kind.startswith("run_") and kind != "run_opened"


def begin_cell(run: RunFolder, cell: str) -> None:
    """Undo that the cell has ended: it continues."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(run.path, _ENDED, cell))


def expect_cells(run: RunFolder, count: int) -> None:
    """Record how many cells the run has, so that the last one knows itself without reading the plan."""
    os.makedirs(os.path.join(run.path, _ENDED), exist_ok=True)
    write_json(os.path.join(run.path, _EXPECTED), {"cells": count})


def end_cell(run: RunFolder, cell: str, watcher: "Optional[Watcher]") -> None:
    """Send the last notices of a cell that has ended; if it was the last one, close the run and report its end."""
    os.close(os.open(os.path.join(run.path, _ENDED, cell), os.O_WRONLY | os.O_CREAT, 0o644))
    if watcher is not None:
        _drain(watcher)
    expected = (read_json(os.path.join(run.path, _EXPECTED)) or {}).get("cells", 0)
    left = expected - len(os.listdir(os.path.join(run.path, _ENDED)))
    if left > (_LOOK_LEFT if watcher is not None else 0):
        return
    from leasehold.caretaker.slurm_queue.gather import Gatherer  # only the last one needs these

    if Gatherer(run).gather().terminal and os.path.exists(run.notify):
        from leasehold.caretaker.notices.dispatcher import Watcher, no_note

        whole = Watcher(run, {}, no_note)
        whole.tells = is_of_run
        _drain(whole)


def _drain(watcher: "Watcher") -> None:
    """Wait until the queued notices are sent, within a limit."""
    deadline = time.monotonic() + _TELL_WITHIN_S
    watcher.step()
    while not watcher.quiet and time.monotonic() < deadline:
        time.sleep(_STEP_S)
        watcher.step()
