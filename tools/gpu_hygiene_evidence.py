"""Show health and the zombie scan on a real card under a real torch job; needs torch and nvidia-smi, nothing else.

    PYTHONPATH=src python3 tools/gpu_hygiene_evidence.py [FILE]

Four looks: idle, under a torch job, after that job was killed while a child still has its devices open (a zombie),
and after the zombie was ended. Every look is what the box answers to `lease gpu`, judged as home judges it. The whole
is written to FILE as JSON (default: $OUT/gpu-hygiene.json), and a summary is printed. About 90 seconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from leasehold.caretaker.gpu import card_holders, card_survey, nvidia_smi
from leasehold.gates.care.gpu_health import GpuReadings, judge_health, worst

_JOB = r"""
import os, sys, time, torch
x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
held = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
if os.fork() == 0:            # a data-loader worker: inherits the devices, does nothing
    os.setsid()
    time.sleep(600)
    os._exit(0)
print("ready", flush=True)
while True:
    for _ in range(200):
        x = torch.nn.functional.normalize(x @ x)
    torch.cuda.synchronize()
"""
_MIN_AGE_S = 1.0  # instead of 120: nobody waits two minutes for a demonstration
_RAW = {
    "compute_apps": ["--query-compute-apps=pid,gpu_uuid,used_memory,name", "--format=csv"],
    "pmon": ["pmon", "-c", "1"],
    "header": ["-q", "-d", "COMPUTE"],
}


def main(argv: list[str]) -> int:
    """Take the four looks and write them down."""
    target = argv[0] if argv else os.path.join(os.environ.get("OUT", "."), "gpu-hygiene.json")
    with tempfile.TemporaryDirectory() as root:
        found: dict[str, Any] = {
            "min_age_s": _MIN_AGE_S,
            "own_namespace": card_holders.own_namespace(),
            "uid": os.geteuid(),
        }
        found["idle"] = _look(root, "idle")
        job = subprocess.Popen([sys.executable, "-c", _JOB], stdout=subprocess.PIPE, start_new_session=True)
        try:
            assert job.stdout is not None and job.stdout.readline() == b"ready\n"
            time.sleep(5)
            found["working"] = _look(root, f"under a torch job (pid {job.pid})")
            os.kill(job.pid, signal.SIGKILL)
            job.wait()
            time.sleep(3)
            found["orphaned"] = _look(root, "job killed, its worker still has the devices")
            zombies = [row for row in found["orphaned"]["survey"]["holders"] if row["zombie"]]
            found["ended"] = card_survey.end_now(root, zombies, 3.0, _MIN_AGE_S)
            print("ended:", found["ended"])
        finally:
            job.kill()
        time.sleep(2)
        found["after"] = _look(root, "zombie ended")
    with open(target, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1, sort_keys=True)
    print("wrote", target)
    return 0


def _look(root: str, what: str) -> dict[str, Any]:
    begun = time.monotonic()
    survey = card_survey.look(root, 5, 1.0, _MIN_AGE_S)
    took_s = time.monotonic() - begun
    known = {key: value for key, value in survey.items() if key in GpuReadings.__dataclass_fields__}
    health = judge_health(GpuReadings(**known))
    print(f"== {what}: {worst(health).value}, {took_s:.1f} s")
    for item in health:
        print(f"   {item.level.value:7} card {item.card or '-':2} {item.what}")
    for row in survey["holders"]:
        print(f"   pid {row['pid']:<7} zombie={row['zombie']!s:5} listed={row['listed']!s:5} {row['why']}")
    raw = {name: nvidia_smi.run_tool(words) for name, words in _RAW.items()}
    return {"survey": survey, "health": [item.as_dict() for item in health], "raw": raw, "took_s": round(took_s, 1)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
