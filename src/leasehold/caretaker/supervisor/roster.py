"""Cells join and leave a run of a sweep by a request that its caretaker reads and journals."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Mapping

from leasehold.caretaker.process.end_processes import poke
from leasehold.caretaker.process.locks import try_lock
from leasehold.caretaker.run.lock_owner import caretaker_identity
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.wire.refused import Refused
from leasehold.kit.files import journal
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.run.run_state import fold

from .card_slots import hear_roster

_ANSWER_WAIT_S = 5.0


def add_cells(folder: RunFolder, plan: Dict[str, Any], may: Callable[[], None]) -> None:
    """Record the cells that this plan adds to the run, if they `may` join; a known name keeps its meaning."""
    before = folder.read_plan() or {}
    known = {cell["name"]: cell["params"] for cell in before.get("job", {}).get("cells") or []}
    cells = {cell["name"]: cell for cell in plan.get("job", {}).get("cells") or []}
    for name, cell in cells.items():
        if name in known and known[name] != cell["params"]:
            raise Refused("sweep.cell_differs", "cell %s of %s has other parameters on this box" % (name, folder.run))
    new = [cells[name] for name in plan["cells"] if name in cells and name not in before.get("cells", [])]
    if new:
        may()
        added = (read_json(folder.added) or {}).get("cells") or []
        write_json(folder.added, {"cells": added + new})


def unheard(plan: Dict[str, Any], seen: Mapping[str, Any]) -> List[str]:
    """List cells of this plan that the journal does not have, or that are on their way to another box."""
    has = {name for name, cell in seen["cells"].items() if not cell.get("leaves")}
    return [name for name in plan["cells"] if name not in has] if seen["seq"] else []


def leave_alone(folder: RunFolder, names: Any) -> List[str]:
    """Record that this resume skips these cells, which a person gave up; an empty list withdraws that."""
    asked = [str(name) for name in names] if isinstance(names, list) else []
    if asked or os.path.exists(folder.given_up):
        write_json(folder.given_up, {"cells": asked})
    return asked


def wish_for(folder: RunFolder, new: List[str], given: Any) -> None:
    """Leave the request to add cells, with the stamp of this assignment: a later one elsewhere outranks it."""
    stamps = {name: int(stamp) for name, stamp in given.items()} if isinstance(given, dict) else {}
    if new or stamps:
        write_json(folder.roster, {"add": new, "given": stamps})


def give_back(folder: RunFolder, wish: Dict[str, Any]) -> List[str]:
    """Have the caretaker release cells that go elsewhere; return those the run has no more. The start lock is held."""
    write_json(folder.roster, wish)
    if not _hear_alone(folder):
        wake(folder)
    if os.path.exists(folder.roster):
        os.unlink(folder.roster)
        raise Refused("run.busy", "the caretaker of %s did not answer" % folder.run)
    left = fold(journal.read_from(folder.journal, 0)[0]).cells
    wanted = [*wish.get("release", ()), *wish.get("withdraw", ())]
    return [name for name in wanted if name not in left or left[name].leaves]


def _hear_alone(folder: RunFolder) -> bool:
    """Act for the caretaker where there is none: its run has ended, or it died."""
    lock = try_lock(folder.caretaker_lock)
    if lock is None:
        return False
    try:
        kept = journal.Journal(folder.journal)
        run = fold(kept.events)

        def note(kind: str, **data: Any) -> None:
            fold([kept.append(kind, **data)], into=run)

        hear_roster(folder, run, note)
        kept.close()
    finally:
        os.close(lock)
    return True


def wake(folder: RunFolder) -> None:
    """Wake the caretaker to read the request about its roster, and wait until it has."""
    who = caretaker_identity(folder)
    if who is not None:
        poke(int(who[0]), who[1])
    deadline = time.monotonic() + _ANSWER_WAIT_S
    while time.monotonic() < deadline and os.path.exists(folder.roster):
        time.sleep(0.02)
