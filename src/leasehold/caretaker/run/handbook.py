"""Keep the run's handbook up to date: written again whenever the run's state changes."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from leasehold.caretaker.process.own_command import own_argv
from leasehold.kit.files.atomic import read_json, write_atomic
from leasehold.kit.run.run_state import RunState

from .run_folder import RunFolder


class Handbook:
    """HANDBOOK.md of a run folder."""

    def __init__(self, folder: RunFolder, plan: Mapping[str, Any], note: Callable[..., None]) -> None:
        self.folder = folder
        self.plan = plan
        self._written: Optional[Tuple[Any, ...]] = None

    def step(self, run: RunState) -> None:
        """Write it again if the run's state differs from before; a full disk is no reason to stop."""
        mark = (run.state, run.reason, tuple((c.state, c.attempt, c.pid) for c in run.cells.values()))
        if mark == self._written:
            return
        self._written = mark
        with contextlib.suppress(OSError):
            write_handbook(self.folder, self.plan, run)


def write_handbook(folder: RunFolder, plan: Mapping[str, Any], run: RunState) -> None:
    """Write HANDBOOK.md as a whole."""
    from leasehold.kit.run.handbook_page import (  # seldom: its words need not weigh on a quiet caretaker
        blank_facts,
        render,
    )

    facts = dict(blank_facts(plan), **(read_json(folder.handbook_facts) or {}))
    text = render(facts, place_of(folder), run.as_dict(), time.time())
    write_atomic(folder.handbook, text.encode("utf-8", "replace"), durable=False)


def place_of(folder: RunFolder) -> Dict[str, Any]:
    """Return the run's path, and the command line of ours that takes care of it."""
    return {"folder": folder.path, "root": folder.root, "care": own_argv("care", folder.address)}
