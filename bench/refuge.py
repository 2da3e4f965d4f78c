"""What copying checkpoints off the box costs a trainer, and how much work a sudden death loses.

The trainer counts steps while it saves; the worker that copies is let run and stopped in turn, so that what else the
machine does falls on both alike. A death kills trainer and worker at a random moment, and only the refuge is left.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from leasehold.caretaker.refuge.orders import RefugeFiles
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.file_lock import try_lock
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.reading import newest_whole

from .rounds import Effort, user_environment
from .rows import Goal, Row

_EVERY_S = 10.0  # between copies, while the cost is measured: 60 times as often as a job has them by default
_STATE_BYTES = 48 << 20
_CADENCE_S = 20.0  # between copies, while deaths are counted
_SAVES_S = 1.0
_AT_ONCE = 8  # deaths; what they train is sleep
_PATIENCE_S = 120.0
_WORKER = "from leasehold.caretaker.entry import main; import sys; sys.exit(main(['refuge', sys.argv[1]]))"
_TRAINER = """
import json, os, struct, sys, time, mmap
out, size, pause, busy = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "busy"
os.makedirs(out + "/ckpt", exist_ok=True)
pad, step, saved = "x" * size, 0, time.monotonic()
with open(out + "/count", "w+b") as file:
    file.write(bytes(8)); file.flush()
    counter = mmap.mmap(file.fileno(), 8)
    while True:
        sum(range(2000)) if busy else time.sleep(0.01)
        step += 1
        counter[:8] = struct.pack("<q", step)
        if time.monotonic() - saved < pause:
            continue
        saved = time.monotonic()
        path = out + "/ckpt/step-%09d.json" % step
        with open(path + ".tmp", "w") as state:
            json.dump({"step": step, "unix": time.time(), "pad": pad}, state)
        os.replace(path + ".tmp", path)
        there = sorted(name for name in os.listdir(out + "/ckpt") if name.endswith(".json"))
        for name in there[:-2]:
            os.unlink(out + "/ckpt/" + name)
"""


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the trainer's time with the worker beside without it, and the work lost at deaths in cadences."""
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as name:
        bed = _Bed(Path(name), _EVERY_S)
        with bed.trainer(_STATE_BYTES, _EVERY_S), bed.worker() as worker:
            _until(lambda: bed.copied() > 0)
            ours, peer = _stretches(bed, worker, effort.choose(full=12, quick=3))
        what = f"a trainer's time a step, {_STATE_BYTES >> 20} MiB copied every {_EVERY_S:.0f} s"
        bed.close()
        yield Row("refuge", what, "s", ours, peer, "not copied", Goal("ratio", "≤", 1.005))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        lost = list(pool.map(_death, range(effort.choose(full=200, quick=16))))
    yield Row("refuge", "work lost at a sudden death, in cadences", "cadences", lost, goal=Goal("ours", "≤", 1.1))


class _Bed:
    """A box's folder with a run, and a tier beside it."""

    def __init__(self, root: Path, every_s: float) -> None:
        self.folder = RunFolder(str(root / "box/active/bench-1"))
        self.tier = root / "tier"
        self.tier.mkdir()
        os.makedirs(RefugeFiles(self.folder).path)
        job = {"checkpoint": {"path": "ckpt/step-*.json", "refuge": ["durable"], "every_s": every_s}}
        tier = {"durable": str(self.tier), "durable_is_folder": True}
        Path(self.folder.plan).write_text(json.dumps({"cells": ["main"], "job": job, "environment": tier}))
        order = {"cells": {"main": {"attempt": 1, "alive": True}}, "box": "bench"}
        Path(RefugeFiles(self.folder).order).write_text(json.dumps(order))
        self._lock = try_lock(self.folder.caretaker_lock)  # the worker sees that somebody cares for the run

    @contextmanager
    def trainer(self, size: int, pause_s: float, busy: bool = True) -> Iterator[subprocess.Popen[bytes]]:
        """Let the trainer run."""
        words = [self.folder.out("main"), str(size), str(pause_s), "busy" if busy else "idle"]
        yield from _run(["-c", _TRAINER, *words])

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        """Let the worker run."""
        yield from _run(["-c", _WORKER, self.folder.path])

    def copied(self) -> int:
        """Count the manifests in the tier."""
        return len(list(self.tier.glob("leasehold/refuge/*/cells/main/newest-*.json")))

    def steps(self) -> int:
        """Return how many steps the trainer has done."""
        return int.from_bytes((Path(self.folder.out("main")) / "count").read_bytes(), "little")

    def close(self) -> None:
        """Let go of the run's lock."""
        if self._lock is not None:
            os.close(self._lock)


def _run(words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    environment = user_environment(PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    process = subprocess.Popen([sys.executable, *words], env=environment, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _stretches(bed: _Bed, worker: subprocess.Popen[bytes], rounds: int) -> tuple[list[float], list[float]]:
    """Time a step with the worker and with the worker stopped, in turn; each stretch holds one copy of its own."""
    taken: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * rounds):
        runs = number % 4 in (0, 3)
        worker.send_signal(signal.SIGCONT if runs else signal.SIGSTOP)
        before, begun = bed.steps(), time.perf_counter()
        time.sleep(_EVERY_S)
        taken[runs].append((time.perf_counter() - begun) / (bed.steps() - before))
    worker.send_signal(signal.SIGCONT)
    return taken[True], taken[False]


def _death(number: int) -> float:
    """Kill everything at a random moment; return what was trained since the newest state in the refuge, in cadences."""
    moment = random.Random(number)
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as name:
        bed = _Bed(Path(name), _CADENCE_S)
        with bed.trainer(100_000, _SAVES_S, busy=False) as trainer, bed.worker() as worker:
            _until(lambda: bed.copied() > 0)
            time.sleep(moment.uniform(0.0, 2 * _CADENCE_S))
            worker.kill()
            trainer.kill()
            died = time.time()
        bed.close()
        place = FolderPlace(str(bed.tier))
        kept = newest_whole(place, bed.folder.run, "main")
        if kept is None:
            raise RuntimeError("nothing whole is left in the refuge")
        return (died - kept.state.made_unix) / (_CADENCE_S + _SAVES_S)


def _until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not holds():
        if time.monotonic() > until:
            raise RuntimeError("the worker copied nothing")
        time.sleep(0.05)
