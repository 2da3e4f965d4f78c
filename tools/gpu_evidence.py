"""Gather what a real card answers: at rest, under a torch job, beside a second process. Prints JSON, or writes it.

    python tools/gpu_evidence.py [--out FILE] [--load-s 20]

Needs a card; torch only for the load. No identities are asked for, so that the file may become a fixture.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from leasehold.caretaker.gpu.cards import LIBRARY, _ask_tool, ask_driver
from leasehold.caretaker.gpu.nvml import CannotAsk, Nvml
from leasehold.caretaker.monitor.patrol import Patrol
from leasehold.caretaker.monitor.slow_probes import Asking
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.rings import read_ring
from leasehold.kit.run.processes import MARK, look
from leasehold.kit.run.run_state import CellState, RunState

_LOAD = """
import sys, time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
held = torch.empty(int(sys.argv[2]) << 20, dtype=torch.uint8, device="cuda")
until, n = time.time() + float(sys.argv[1]), 0
while time.time() < until:
    for _ in range(20):
        b = a @ a
    torch.cuda.synchronize()
    n += 20
    print("step %d loss %.4f" % (n, 3.0 / (1 + n / 100)), flush=True)
"""


def main() -> int:
    """Gather it all; what fails is said in its place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="", metavar="FILE")
    parser.add_argument("--load-s", type=float, default=20.0)
    args = parser.parse_args()
    seen: dict[str, Any] = {"python": sys.version, "at_unix": int(time.time())}
    for name, gather in (
        ("memory_of_nvml", _memory_of_nvml),
        ("nvml", lambda: _nvml(args.load_s)),
        ("short_lived", _short_lived),
        ("nvidia_smi", _nvidia_smi),
        ("kernel_log", _kernel_log),
        ("patrol", lambda: _patrol(2 * args.load_s)),
    ):
        try:
            seen[name] = gather()
        except (CannotAsk, OSError, subprocess.SubprocessError) as error:
            seen[name] = {"problem": f"{type(error).__name__}: {error}"}
    text = json.dumps(seen, indent=1)
    if args.out:
        Path(args.out).write_text(text + "\n")
    print(text)
    return 0


def _nvml(load_s: float) -> dict[str, Any]:
    nvml = Nvml(LIBRARY)
    found: dict[str, Any] = {"at_rest": _samples(nvml, 3), "sample_ms": _cost_ms(nvml.cards)}
    jobs = [_load(load_s, 20000), _load(load_s, 500)]
    try:
        time.sleep(load_s / 2)  # torch's own start
        found["under_load"] = _samples(nvml, max(3, int(load_s / 4)))
        found["our_pids"] = [job.pid for job in jobs]
        found["sample_under_load_ms"] = _cost_ms(nvml.cards)
    finally:
        for job in jobs:
            job.terminate()
            said = job.communicate(timeout=60)[0].decode("utf-8", "replace").splitlines()
            found.setdefault("jobs_said", []).append(said[-3:])
    time.sleep(2)
    found["afterwards"] = _samples(nvml, 2)
    nvml.close()
    return found


def _short_lived() -> dict[str, Any]:
    """Ask as the patrol does: a child that opens the driver, answers and ends."""
    costs, answers = [], []
    for _ in range(10):
        before, begun = sum(os.times()[2:4]), time.perf_counter()
        asking, answers = Asking({"gpu": ask_driver}), []
        while not answers and time.perf_counter() - begun < 30:
            answers = asking.step(time.monotonic(), lambda: None)
        asking.step(time.monotonic(), lambda: None)
        costs.append([round(1000 * (time.perf_counter() - begun), 1), round(1000 * (sum(os.times()[2:4]) - before), 1)])
    return {"wall_and_cpu_ms": costs, "answer": answers[0]._asdict() if answers else None}


def _load(seconds: float, held_mib: int) -> subprocess.Popen[bytes]:
    asked = [sys.executable, "-c", _LOAD, str(seconds), str(held_mib)]
    return subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _samples(nvml: Nvml, count: int) -> list[Any]:
    taken = []
    for _ in range(count):
        taken.append(nvml.cards())
        time.sleep(1)
    return taken


def _cost_ms(act: Callable[[], object], times: int = 20) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(times):
        act()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"wall": round(1000 * wall / times, 3), "cpu": round(1000 * cpu / times, 3)}


def _memory_of_nvml() -> dict[str, Any]:
    """Say what a process weighs before and after it opened the library (kB, from smaps_rollup)."""
    script = (
        "import sys, json; sys.path.insert(0, sys.argv[1]); import ctypes\n"
        "def pss(): return {l.split(':')[0]: int(l.split()[1]) for l in open('/proc/self/smaps_rollup') if 'kB' in l}\n"
        "before = pss(); from leasehold.caretaker.gpu.nvml import Nvml; module = pss()\n"
        "n = Nvml('libnvidia-ml.so.1'); opened = pss()\n"
        "n.cards(); sampled = pss(); n.close(); closed = pss()\n"
        "keys = ('Rss', 'Pss', 'Private_Dirty')\n"
        "print(json.dumps({name: {k: f[k] for k in keys} for name, f in dict(before=before, module=module,"
        " opened=opened, sampled=sampled, closed=closed).items()}))\n"
    )
    asked = [sys.executable, "-I", "-S", "-c", script, sys.path[0]]
    done = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    said = done.stdout.decode("utf-8", "replace").strip()
    return dict(json.loads(said)) if done.returncode == 0 else {"problem": said[-500:]}


def _nvidia_smi() -> dict[str, Any]:
    answer: list[Any] = []
    cost = _cost_ms(lambda: answer.append(_ask_tool("asked for its own sake")), times=3)
    return {"answer": answer[-1]._asdict(), "cost_ms": cost}


def _patrol(seconds: float) -> dict[str, Any]:
    """Let the patrol itself watch a torch job, with a stranger's job on the same card, and weigh it."""
    with tempfile.TemporaryDirectory(prefix="leasehold-evidence-") as name:
        folder = RunFolder(os.path.join(name, "active", "evidence"))
        place = Path(folder.attempt("main", 1))
        place.mkdir(parents=True)
        with open(place / "log", "wb") as log:
            environ = {**os.environ, MARK: folder.mark("main", 1)}
            asked = [sys.executable, "-c", _LOAD, str(seconds), "20000"]
            trainer = subprocess.Popen(asked, stdout=log, stderr=log, env=environ, start_new_session=True)
        stranger = _load(seconds, 500)
        try:
            return _watched(folder, trainer.pid, seconds)
        finally:
            for job in (trainer, stranger):
                job.kill()
                job.wait()


def _watched(folder: RunFolder, pid: int, seconds: float) -> dict[str, Any]:
    process = look(pid)
    cell = CellState()
    cell.state, cell.attempt, cell.pid, cell.started = "running", 1, pid, process.started if process else ""
    run = RunState()
    run.state, run.cells = "running", {"main": cell}
    events: list[dict[str, Any]] = []
    patrol = Patrol(folder, {"job": {}, "cells": ["main"]}, lambda kind, **facts: events.append({"k": kind, **facts}))
    until, before = time.monotonic() + seconds, _weight()
    while time.monotonic() < until:
        patrol.step(run, [], lambda: None)
        with contextlib.suppress(ChildProcessError):  # as the caretaker's loop does
            os.waitpid(-1, os.WNOHANG)
        time.sleep(1)
    after = _weight()
    facts, alarms = patrol.facts(), patrol.alarms
    patrol.end()
    return {
        "seconds": seconds,
        "last_sample": facts,
        "events": events,
        "alarms": alarms,
        "weight_before": before,
        "weight_after": after,
        "series": read_ring(os.path.join(folder.readings, "5s.jsonl")),
    }


def _weight() -> dict[str, Any]:
    """Weigh this process; processor time with that of the children it waited for."""
    rollup = Path("/proc/self/smaps_rollup").read_text().splitlines()
    figures = {line.split(":")[0]: int(line.split()[1]) for line in rollup if line.endswith("kB")}
    return {
        **{key: figures.get(key) for key in ("Rss", "Pss", "Private_Dirty")},
        "cpu_s": round(sum(os.times()[:4]), 3),
    }


def _kernel_log() -> dict[str, Any]:
    try:
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        return {"readable": False, "problem": str(error)}
    try:
        first = os.read(fd, 8192).decode("utf-8", "replace")[:80]
    except OSError as error:
        return {"readable": False, "problem": str(error)}
    finally:
        os.close(fd)
    return {"readable": True, "first": first}


if __name__ == "__main__":
    sys.exit(main())
