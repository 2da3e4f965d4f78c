"""Send home the newest whole state of each cell: chosen, pinned, measured, and then charted as any files are."""

from __future__ import annotations

import os
from typing import Optional

from leasehold.caretaker.artifacts.hash_cache import HashMemory
from leasehold.caretaker.artifacts.live_chart import Picked, live_chart
from leasehold.caretaker.artifacts.send_ranges import asked_of
from leasehold.caretaker.artifacts.stable_view import StableView
from leasehold.caretaker.artifacts.state_view import Told, choose
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.files.checkpoint_states import State

from .best_metric import metric_of
from .found_states import Candidate


def state_chart(request: Request) -> None:
    """List, hash and seal the states; {listed} then has `states`: cell, path, step, made_unix, metric."""
    folder, plan, places = asked_of(request)
    metric = str((plan.get("job", {}).get("checkpoint") or {}).get("best_metric") or "")

    def measure(cell: str, state: State) -> Optional[float]:
        return metric_of(folder.out(cell), _candidate(state), metric)

    def choosing(view: Optional[StableView]) -> Picked:
        if view is None:
            raise Refused("state.no_view", "the box has no room for links, or another pull of its states goes on")
        path, told = str(request.args.get("states")), Told(request.args.get("begun"), request.args.get("have"))
        chosen = choose(view, folder, sorted(places), path, told, measure)
        return chosen.files, chosen.left, {"states": chosen.states}

    live_chart(request, (folder, plan, places), HashMemory(os.path.join(folder.path, "hashes.json")), choosing)


def _candidate(state: State) -> Candidate:
    alone = len(state.files) == 1 and state.files[0].path == state.path
    root = os.path.dirname(state.path) if alone else state.path
    skip = len(root) + 1 if root else 0
    rows = [(one.path[skip:], one.info.st_size, one.info.st_mtime_ns, one.info.st_ino) for one in state.files]
    return Candidate(state.path, root, tuple(rows))
