"""Cells join and leave a run of a sweep by a wish that its caretaker takes up and journals."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List

from leasehold.kit import journal
from leasehold.kit.atomic import read_json, write_json
from leasehold.kit.runstate import fold

from .layout import RunFolder
from .reaper import poke
from .refusing import Refused
from .signing import caretaker_identity

_ANSWER_WAIT_S = 5.0


def add_cells(folder: RunFolder, plan: Dict[str, Any]) -> None:
    """Write down the cells that this plan has beyond those the run has now; a known name keeps its meaning."""
    before = folder.read_plan() or {}
    known = {cell["name"]: cell["params"] for cell in before.get("job", {}).get("cells") or []}
    cells = {cell["name"]: cell for cell in plan.get("job", {}).get("cells") or []}
    for name, cell in cells.items():
        if name in known and known[name] != cell["params"]:
            raise Refused("sweep.cell_differs", "cell %s of %s has other parameters on this box" % (name, folder.run))
    new = [cells[name] for name in plan["cells"] if name in cells and name not in before.get("cells", [])]
    if new:
        added = (read_json(folder.added) or {}).get("cells") or []
        write_json(folder.added, {"cells": added + new})


def unheard(folder: RunFolder, plan: Dict[str, Any], seen: Dict[str, Any]) -> List[str]:
    """List cells of this plan that the journal does not have, and leave the wish to take them up."""
    new = [name for name in plan["cells"] if name not in seen["cells"]] if seen["seq"] else []
    if new and plan.get("engine") != "slurm":
        write_json(folder.roster, {"add": new})
    return new


def give_back(folder: RunFolder, wanted: List[str]) -> List[str]:
    """Have the caretaker give back cells that have not begun; the caller holds the start lock. Returns which it did."""
    write_json(folder.roster, {"release": wanted})
    wake(folder)
    if os.path.exists(folder.roster):
        os.unlink(folder.roster)
        raise Refused("run.busy", "the caretaker of %s did not answer" % folder.run)
    events = journal.read_from(folder.journal, 0)[0]
    given = [name for event in events if event["k"] == "cells_released" for name in event["cells"]]
    left = fold(events).cells
    return [name for name in wanted if name in given and name not in left]


def wake(folder: RunFolder) -> None:
    """Have the caretaker take up the wish about its roster, and see that it did."""
    who = caretaker_identity(folder)
    if who is not None:
        poke(int(who[0]), who[1])
    deadline = time.monotonic() + _ANSWER_WAIT_S
    while time.monotonic() < deadline and os.path.exists(folder.roster):
        time.sleep(0.02)
