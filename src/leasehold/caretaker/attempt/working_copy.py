"""A cell's own folders: its output folder, and its private copy of the code."""

from __future__ import annotations

import os
from typing import Any, Dict

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.uploads.trees import lay_out
from leasehold.caretaker.wire.refused import Refused
from leasehold.kit.files.paths import join_checked


def prepare_cell(folder: RunFolder, plan: Dict[str, Any], cell: str) -> None:
    """Give a cell an out folder and its own, writable copy of the code; one that is already there is fine."""
    _make_out(folder.out(cell), plan)
    os.makedirs(folder.cell(cell), exist_ok=True)
    work = folder.work(cell)
    if os.path.isdir(work):
        return
    os.makedirs(os.path.dirname(work), exist_ok=True)
    staging = "%s.partial-%s-%d" % (work, os.uname().nodename, os.getpid())
    try:
        lay_out(folder.root, str(plan["tree"]), staging)
        for item in plan["job"].get("data") or ():
            give_input(folder, item, staging)
        os.rename(staging, work)
    finally:
        if os.path.lexists(staging):
            import shutil  # lazily: it brings bz2 and lzma, and every connection and task would pay

            shutil.rmtree(staging, ignore_errors=True)


def give_input(folder: RunFolder, item: Dict[str, Any], work: str) -> None:
    """Link uploaded data to its place in a working copy and in the run's `inputs`, which all cells share."""
    view = os.path.join(folder.root, "inputs", "trees", str(item["sha256"]))
    if not os.path.exists(view + ".list"):
        raise Refused("data.gone", "the data %s is not on this box; the identical lease run sends it" % item["to"])
    target = view if item["folder"] else os.path.join(view, os.path.basename(item["to"]))
    for top in (folder.inputs, work):
        place = join_checked(top, item["to"])
        os.makedirs(os.path.dirname(place), exist_ok=True)
        try:
            os.symlink(target, place)
        except FileExistsError:
            if top == work or os.readlink(place) != target:
                raise Refused("data.collides", "the code has %s, where the data should lie" % item["to"]) from None


def _make_out(out: str, plan: Dict[str, Any]) -> None:
    """Make the output folder; for an adopted trainer, a link to the folder that it writes to."""
    adopted = plan.get("adopted") or {}
    if not adopted:
        os.makedirs(out, exist_ok=True)
        return
    if not os.path.isdir(str(adopted.get("out"))):
        raise Refused("adopt.no_folder", "%s is no folder on this box" % adopted.get("out"))
    os.makedirs(os.path.dirname(out), exist_ok=True)
    if not os.path.lexists(out):
        os.symlink(str(adopted["out"]), out)
