"""Gather what a real card answers: at rest, under a torch job, beside a second process. Prints JSON, or writes it.

    python tools/gpu_evidence.py [--out FILE] [--load-s 20]

Needs a card; torch only for the load. Identities (uuid, serial) are blanked, so that the file may become a fixture.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from leasehold.caretaker.nvml import CannotAsk, Nvml
from leasehold.caretaker.smi import FIELDS, Smi, parse

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
    for name, look in (
        ("memory_of_nvml", _memory_of_nvml),
        ("nvml", lambda: _nvml(args.load_s)),
        ("nvidia_smi", _nvidia_smi),
        ("kernel_log", _kernel_log),
    ):
        try:
            seen[name] = look()
        except (CannotAsk, OSError, subprocess.SubprocessError) as error:
            seen[name] = {"problem": f"{type(error).__name__}: {error}"}
    text = json.dumps(seen, indent=1)
    if args.out:
        Path(args.out).write_text(text + "\n")
    print(text)
    return 0


def _nvml(load_s: float) -> dict[str, Any]:
    nvml = Nvml()
    described = nvml.describe()
    for card in described:
        card["uuid"] = "GPU-00000000"
    found: dict[str, Any] = {"cards": described, "hears_xids": nvml.hears_xids}
    found["at_rest"] = _samples(nvml, 3)
    found["cost_ms"] = {"quick": _cost_ms(lambda: nvml.sample(deep=False)), "deep": _cost_ms(nvml.sample)}
    jobs = [_load(load_s, 20000), _load(load_s, 500)]
    try:
        time.sleep(load_s / 2)  # torch's own start
        found["under_load"] = _samples(nvml, max(3, int(load_s / 4)))
        found["our_pids"] = [job.pid for job in jobs]
        found["cost_under_load_ms"] = {
            "quick": _cost_ms(lambda: nvml.sample(deep=False)),
            "deep": _cost_ms(nvml.sample),
        }
    finally:
        for job in jobs:
            job.terminate()
            said = job.communicate(timeout=60)[0].decode("utf-8", "replace").splitlines()
            found.setdefault("jobs_said", []).append(said[-3:])
    time.sleep(2)
    found["afterwards"] = _samples(nvml, 2)
    found["xids"] = nvml.xids()
    nvml.close()
    return found


def _load(seconds: float, held_mib: int) -> subprocess.Popen[bytes]:
    asked = [sys.executable, "-c", _LOAD, str(seconds), str(held_mib)]
    return subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _samples(nvml: Nvml, count: int) -> list[Any]:
    taken = []
    for _ in range(count):
        taken.append(nvml.sample())
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
        "before = pss(); from leasehold.caretaker.nvml import Nvml; module = pss(); n = Nvml(); opened = pss()\n"
        "n.sample(); sampled = pss(); n.close(); closed = pss()\n"
        "keys = ('Rss', 'Pss', 'Private_Dirty')\n"
        "print(json.dumps({name: {k: f[k] for k in keys} for name, f in dict(before=before, module=module,"
        " opened=opened, sampled=sampled, closed=closed).items()}))\n"
    )
    asked = [sys.executable, "-I", "-S", "-c", script, sys.path[0]]
    done = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    said = done.stdout.decode("utf-8", "replace").strip()
    return dict(json.loads(said)) if done.returncode == 0 else {"problem": said[-500:]}


def _nvidia_smi() -> dict[str, Any]:
    asked = ["nvidia-smi", "--query-gpu=" + ",".join(FIELDS), "--format=csv,noheader,nounits"]
    done = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    found: dict[str, Any] = {"code": done.returncode, "lines": lines[:16], "parsed": [parse(line) for line in lines]}
    loop = Smi(every_s=1)
    time.sleep(4)
    found["loop"] = loop.sample()
    rollup = Path(f"/proc/{loop._child.pid}/smaps_rollup").read_text()
    found["loop_pss_kb"] = [line for line in rollup.splitlines() if line.startswith(("Pss:", "Rss:"))]
    found["loop_cpu_ticks"] = Path(f"/proc/{loop._child.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    loop.close()
    return found


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
