"""Write each task of an array its own share of the plan, found without reading the others'.

A plan of ten thousand cells is megabytes; ten thousand tasks that each parse it would cost more than many a cell.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional

from leasehold.caretaker.run.run_folder import CellFolder, RunFolder
from leasehold.kit.files.atomic import read_json, write_atomic, write_json


def write_shares(folder: RunFolder, number: int, cells: List[str], wishes: Dict[str, Any]) -> None:
    """Write what all tasks share, and a line for each task of an array in the order of their indices."""
    plan = folder.read_plan() or {"job": {}}
    known = {cell["name"]: cell for cell in plan["job"].get("cells") or []}
    rest = dict(plan, cells=[], slurm=wishes, job={key: value for key, value in plan["job"].items() if key != "cells"})
    write_json(_common(folder), rest)
    lines = [json.dumps({"name": name, "cell": known.get(name)}, ensure_ascii=False) for name in cells]
    write_atomic(_lines(folder, number), ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))


def share_of(folder: RunFolder, number: int, index: int) -> Optional[Dict[str, Any]]:
    """Return the plan as if the run had this task's cell alone; None when there is no such task."""
    plan = read_json(_common(folder))
    try:
        with open(_lines(folder, number), "rb") as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return None
    if plan is None or not 0 <= index < len(lines) - 1:
        return None
    own = json.loads(lines[index].decode("utf-8"))
    job = dict(plan["job"], cells=[own["cell"]]) if own["cell"] else plan["job"]
    return dict(plan, cells=[own["name"]], job=job)


def keep_share(folder: CellFolder, share: Dict[str, Any]) -> None:
    """Write a cell's share where its keeper and its errands read it; if lost, the cell's next task writes it anew."""
    write_json(folder.plan, share, durable=False)


def _common(folder: RunFolder) -> str:
    return os.path.join(folder.path, "slurm", "plan.json")


def _lines(folder: RunFolder, number: int) -> str:
    return os.path.join(folder.path, "slurm", "submission-%04d.cells" % number)
