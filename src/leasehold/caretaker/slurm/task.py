"""What a task of the array runs: the caretaker of one cell, in the place of the batch script."""

from __future__ import annotations

import os
import sys
from typing import Mapping

from leasehold.caretaker.layout import CellFolder, RunFolder
from leasehold.caretaker.trees import tree_path
from leasehold.kit.tree import copy_tree

from .submit import cell_of

_LOCK_WAIT_S = 120.0  # a node that failed may hold the cell a while; Slurm has fenced it by then


def task(run: RunFolder, number: int, environ: Mapping[str, str]) -> int:
    """Care for the cell that this task was given; its exit code is for Slurm's books only."""
    cell = cell_of(run, number, int(environ.get("SLURM_ARRAY_TASK_ID", "0")))
    if cell is None:
        sys.stderr.write("leasehold: submission %d of %s has no such task\n" % (number, run.path))
        return 64
    folder = CellFolder(run.path, cell)
    prepare(folder)
    from leasehold.caretaker.supervise import care

    return care(folder, "sbatch")


def prepare(folder: CellFolder) -> None:
    """Give the cell its out folder and its own copy of the code."""
    plan = folder.read_plan()
    if plan is None:
        raise SystemExit("leasehold: %s is gone" % folder.plan)
    os.makedirs(folder.out(folder.only), exist_ok=True)
    os.makedirs(folder.address, exist_ok=True)
    work = folder.work(folder.only)
    if os.path.isdir(work):
        return
    os.makedirs(os.path.dirname(work), exist_ok=True)
    staging = "%s.partial-%s-%d" % (work, os.uname().nodename, os.getpid())
    copy_tree(tree_path(folder.root, plan["tree"]), staging)
    os.rename(staging, work)
