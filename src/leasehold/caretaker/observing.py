"""Look at runs: what their journals say, checked against locks and processes. Asked most, so it brings little along."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from leasehold.kit import journal
from leasehold.kit.atomic import read_json
from leasehold.kit.paths import NAME
from leasehold.kit.procs import boot_id, is_alive
from leasehold.kit.runstate import FAILED, FINISHED, RunState, fold

from .handbook import place_of
from .layout import RunFolder
from .locks import is_held
from .run_requests import folder_of
from .serve import Request
from .slurm import is_slurm

if TYPE_CHECKING:
    from .slurm.gather import Gatherer


def look(request: Request) -> None:
    """Answer a run's state from its journal, checked against locks and processes."""
    request.reply(observe(folder_of(request)))


def runs(request: Request) -> None:
    """List the runs this box knows."""
    folder = os.path.join(request.root, "active")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for name in filter(NAME.match, names):  # .ipynb_checkpoints and the like are no runs of ours
        place = RunFolder.below(request.root, name)
        if os.path.exists(place.plan):
            request.reply(observe(place))


def observe(folder: RunFolder) -> Dict[str, Any]:
    """Fold the journal and check it against locks and processes."""
    cluster = gatherer_of(folder)
    run, offset = _folded(folder, cluster)
    seen = run.as_dict()
    for name, cell in seen["cells"].items():
        here = cluster is None or cell["state"] not in (FINISHED, FAILED)  # a cluster has thousands that are done
        cell["alive"] = here and bool(cell["pid"]) and is_alive(cell["pid"], cell["started"])
        cell["held"] = here and is_held(folder.cell_lock(name), fresh=False)
    status = read_json(folder.status) or {}
    seen.update(
        run=folder.run,
        folder=folder.path,
        offset=offset,
        terminal=run.terminal,
        caretaker_alive=is_held(folder.caretaker_lock) if cluster is None else cluster.alive and not run.terminal,
        cluster_problem="" if cluster is None else cluster.problem,
        heartbeat_unix=status.get("heartbeat_unix"),
        work=status.get("work"),
        standing=status.get("standing"),
        health=status.get("health"),
        now_unix=time.time(),
        boot=boot_id(),
        holder=read_json(folder.holder) or {},
        place=place_of(folder),
    )
    return seen


def _folded(folder: RunFolder, cluster: "Optional[Gatherer]") -> Tuple[RunState, int]:
    """Fold the run's journal, gathered first where a cluster cares for its cells; return where it ends too."""
    if cluster is not None:
        return cluster.gather(), cluster.offset
    events, offset = journal.read_from(folder.journal, 0)
    return fold(events), offset


def gatherer_of(folder: RunFolder) -> "Optional[Gatherer]":
    """Who folds the journals of a run whose cells a cluster cares for; None where one caretaker has them all."""
    plan = read_json(folder.plan)
    if plan is None or not is_slurm(plan):
        return None
    from .slurm.gather import Gatherer  # most boxes are no cluster, and it brings much

    return Gatherer(folder)
