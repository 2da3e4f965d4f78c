"""`lease status` with 1,000 runs in the ledger against a bare interpreter."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from leasehold.ledger import books
from leasehold.ledger.store import Ledger
from leasehold.model.job.job import Artifact, Job
from leasehold.model.run.plan import Plan

from .rounds import LEASE, Effort, interleave, seconds_of, user_environment
from .rows import Goal, Row

_RUNS = 1000


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the full listing, and one run asked for by name."""
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as place:
        _fill(Path(place) / "ledger.sqlite")
        environment = user_environment(LEASEHOLD_HOME=place)
        ways = {
            "all": lambda: seconds_of([LEASE, "status"], environment),
            "one": lambda: seconds_of([LEASE, "status", "train-0000000500"], environment),
            "python": lambda: seconds_of([sys.executable, "-c", "pass"], environment),
        }
        taken = interleave(ways, effort.choose(full=25, quick=5))
    peer = (taken["python"], "python -c pass")
    yield Row("status", f"lease status, {_RUNS:,} runs", "s", taken["all"], *peer, Goal("ratio", "≤", 8))
    yield Row("status", f"lease status RUN, one of {_RUNS:,}", "s", taken["one"], *peer)


def _fill(path: Path) -> None:
    """Write the history of a busy home through the ledger itself: what each run leaves behind, in its order."""
    ledger = Ledger(path, clock=lambda: time.time() - 86400)
    boxes = [books.open_lease(ledger, f"ssh:gpu{n}", "generic-ssh", "", "1.98USD/h") for n in range(10)]
    job = Job("train", "python train.py", (Artifact("best.pt", "torch"), Artifact("metrics.json", "json")))
    with ledger.transaction() as append:
        for number in range(_RUNS):
            run, lease = f"train-{number:010d}", boxes[number % len(boxes)]
            plan = Plan(run, job, f"{number:064x}", "generic-ssh", ("tmux", "systemd", "setsid"))
            places = {"project": "/home/me/train", "results": "/home/me/train/lease-results"}
            planned = {"plan": plan.as_dict(), "name": "train", "box": lease.box, **places}
            append("run_planned", lease.id, run, planned)
            append("run_seen", lease.id, run, {"state": "running", "seq": 3})
            if number % 10:
                append("run_seen", lease.id, run, {"state": "finished", "seq": 6})
                append("receipt_written", lease.id, run, {"receipt": _receipt(plan), "export": f"/home/me/{run}"})
    ledger.close()


def _receipt(plan: Plan) -> dict[str, object]:
    loads = [{"path": f"main/{name}", "kind": "torch", "tensors": 120, "numel": 10**8} for name in plan.job.name]
    return {"run": plan.run, "plan_sha256": plan.sha256, "files": 2, "bytes": 4 * 10**8, "loads": loads}
