"""Many small cells on a real Slurm cluster: what each costs over a bare array, against submitit, and what many cost.

Ours ends when every result is at home, hash-equal and proved to load; the peers when every result could be read.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.parts import missing_slurm
from tests.support.slurm_bed import SlurmCluster

from .cluster import Bed, Spent, wait_for
from .meter import metered
from .rounds import LEASE, Effort, interleave
from .rows import Goal, MissingPart, Row

_OWN_VENV = Path(__file__).resolve().parents[1] / ".venv-submitit" / "bin" / "python"  # tools/submitit_venv.sh
_OWED = 3  # the exit code of a reconciliation that found something on the box


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the rows of short cells, of submitting many, and of accounting for very many."""
    missing = missing_slurm()
    if missing:
        raise MissingPart(missing)
    python = _python_with_submitit()
    with (
        tempfile.TemporaryDirectory(prefix="lhb-") as name,
        metered() as meter,
        SlurmCluster(Path(name) / "slurm") as slurm,
    ):
        bed = Bed(Path(name), slurm, meter)
        root = str(Path(name) / "fs")
        bed.lease(Path(name), "box", "add", "cluster", "local", "--platform", "slurm", "--root", root)
        yield from _short(bed, python, effort)
        slurm.run("scontrol", "update", "PartitionName=main", "State=DOWN")  # what is submitted now stays queued
        yield from _submitted(bed, effort)
        yield from _accounted(bed, effort.choose(full=10_000, quick=1_000))


def _short(bed: Bed, python: str, effort: Effort) -> Iterator[Row]:
    count = effort.choose(full=200, quick=40)
    ways: dict[str, Callable[[], Spent]] = {
        "bare": lambda: bed.bare(count),
        "ours": lambda: bed.ours(count),
        "submitit": lambda: bed.submitit(python, count),
    }
    taken = interleave(ways, effort.choose(full=3, quick=1))
    clock = {name: [each.clock_s for each in spent] for name, spent in taken.items()}
    cpu = {name: [each.processor_s / count for each in spent] for name, spent in taken.items()}
    over = {name: [one - bare for one, bare in zip(cpu[name], cpu["bare"], strict=True)] for name in cpu}
    what = f"{count} cells that do nothing, results verified"
    peer = (clock["submitit"], "submitit map_array")
    yield Row("sweep", what, "s", clock["ours"], *peer, Goal("ratio", "≤", 0.5))
    yield Row("sweep", "the same", "s", clock["ours"], clock["bare"], "bare array, files read")
    peer = (over["submitit"], "submitit map_array")
    yield Row("sweep", "processor time a cell, over a bare array", "s", over["ours"], *peer, Goal("ours", "≤", 0.06))


def _submitted(bed: Bed, effort: Effort) -> Iterator[Row]:
    count = effort.choose(full=1_000, quick=200)
    taken = [_submit(bed, bed.project(count), count) for _ in range(effort.choose(full=3, quick=1))]
    yield Row("sweep", f"plan and submit {count:,} cells", "s", taken, goal=Goal("ours", "≤", 3.0))


def _submit(bed: Bed, project: Path, count: int, *words: str) -> float:
    """Return how long it takes until Slurm has every cell; the command then waits for a first line, and is ended."""
    before = set(bed.place.glob("fs/active/*/slurm/submission-*.json"))
    begun = time.perf_counter()
    process = subprocess.Popen(
        [LEASE, "run", "--on", "cluster", "--detach", *words], cwd=project, env=bed.environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_for(lambda: _named(bed, before, count) or process.poll() is not None, "the submission", pause_s=0.01)
        took_s = time.perf_counter() - begun
        if process.poll() is not None and process.stderr is not None:
            raise RuntimeError(f"lease run exited with {process.returncode}: {process.stderr.read()[-2000:]}")
        return took_s
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        bed.slurm.run("scancel", "-u", str(os.getuid()))
        bed.quiet()


def _named(bed: Bed, before: set[Path], count: int) -> bool:
    new = set(bed.place.glob("fs/active/*/slurm/submission-*.json")) - before
    records = [json.loads(path.read_text()) for path in new]
    return sum(len(record["cells"]) for record in records if record["job"]) == count


def _accounted(bed: Bed, count: int) -> Iterator[Row]:
    project = bed.project(count, seeds=10)
    # The gate may find no room for so many on a small disk, and none of these is ever run.
    _submit(bed, project, count, "--skip-gate", "audit", "--because", "nothing is run")
    (run,) = [path for path in bed.place.glob("fs/active/*") if _cells(path) == count]
    _finish(run, next(bed.place.glob("fs/active/*/cells/*/journal.jsonl")))
    first, again = _reconcile(bed, project, run.name, count), _reconcile(bed, project, run.name, count)
    goal = Goal("ours", "≤", 10.0)
    yield Row("sweep", f"reconcile {count:,} cells, every journal new", "s", [first], goal=goal)
    yield Row("sweep", f"reconcile {count:,} cells again", "s", [again], goal=goal)


def _cells(run: Path) -> int:
    return len(json.loads((run / "plan.json").read_text())["cells"])


def _finish(run: Path, like: Path) -> None:
    """Have every cell end as one did that really ran: its journal under another name, and a result."""
    text, name = like.read_text(), like.parent.name
    for cell in json.loads((run / "plan.json").read_text())["cells"]:
        (run / "cells" / cell).mkdir(parents=True)
        (run / "cells" / cell / "journal.jsonl").write_text(text.replace(f'"{name}"', f'"{cell}"'))
        (run / "out" / cell).mkdir(parents=True)
        (run / "out" / cell / "result.json").write_text(f'{{"x": "{cell}"}}')


def _reconcile(bed: Bed, project: Path, run: str, count: int) -> float:
    begun = time.perf_counter()
    said = bed.command([LEASE, "sweep", "reconcile", run, "--json"], project, expect=_OWED)
    took_s = time.perf_counter() - begun
    words = [account["word"] for account in json.loads(said)["cells"]]
    if words != ["on the box"] * count:
        raise RuntimeError(f"not every cell is on the box: {sorted(set(words))}")
    return took_s


def _python_with_submitit() -> str:
    for python in (os.environ.get("LEASEHOLD_SUBMITIT_PYTHON", ""), str(_OWN_VENV)):
        if python and os.path.exists(python):
            return python
    raise MissingPart("no Python with submitit here; tools/submitit_venv.sh makes one")
