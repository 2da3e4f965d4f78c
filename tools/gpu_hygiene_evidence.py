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

from leasehold.caretaker import gpu_holders, gpu_query, gpu_survey
from leasehold.gates.gpu_health import GpuReadings, judge_health, worst

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
_RAW = {
    "compute_apps": ["--query-compute-apps=pid,gpu_uuid,used_memory,name", "--format=csv"],
    "pmon": ["pmon", "-c", "1"],
    "header": ["-q", "-d", "COMPUTE"],
}


class _Asked:
    """A request as `serve` would hand it over, with its answers kept."""

    def __init__(self, root: str, **args: Any) -> None:
        self.root = root
        self.args = args
        self.answers: list[dict[str, Any]] = []

    def reply(self, value: dict[str, Any]) -> None:
        """Keep an answer."""
        self.answers.append(value)


def main(argv: list[str]) -> int:
    """Take the four looks and write them down."""
    target = argv[0] if argv else os.path.join(os.environ.get("OUT", "."), "gpu-hygiene.json")
    gpu_holders.YOUNG_S = 1.0  # said in the file: nobody waits two minutes for a demonstration
    gpu_holders.holders.__defaults__ = (1.0,)
    with tempfile.TemporaryDirectory() as root:
        found = {"min_age_s": 1.0, "own_namespace": gpu_holders.own_namespace(), "uid": os.geteuid()}
        found["idle"] = _look(root, "idle")
        job = subprocess.Popen([sys.executable, "-c", _JOB], stdout=subprocess.PIPE, start_new_session=True)
        try:
            assert job.stdout is not None and job.stdout.readline() == b"ready\n"
            time.sleep(5)
            found["working"] = _look(root, "under a torch job (pid %d)" % job.pid)
            os.kill(job.pid, signal.SIGKILL)
            job.wait()
            time.sleep(3)
            found["orphaned"] = _look(root, "job killed, its worker still has the devices")
            zombies = [row for row in found["orphaned"]["survey"]["holders"] if row["zombie"]]
            asked = _Asked(root, targets=zombies, watch_s=5.0, grace_s=3.0)
            gpu_survey.end_holders(asked)  # type: ignore[arg-type]
            found["ended"] = asked.answers
            print("ended:", asked.answers)
        finally:
            for pid in [job.pid] if job.poll() is None else []:
                os.kill(pid, signal.SIGKILL)
        time.sleep(2)
        found["after"] = _look(root, "zombie ended")
    with open(target, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1, sort_keys=True)
    print("wrote", target)
    return 0


def _look(root: str, what: str) -> dict[str, Any]:
    asked = _Asked(root, samples=5, period_s=1.0)
    begun = time.monotonic()
    gpu_survey.survey(asked)  # type: ignore[arg-type]
    took_s = time.monotonic() - begun
    survey = asked.answers[-1]
    known = {key: value for key, value in survey.items() if key in GpuReadings.__dataclass_fields__}
    health = judge_health(GpuReadings(**known))
    print("== %s: %s, %.1f s" % (what, worst(health).value, took_s))
    for item in health:
        print("   %-7s card %-2s %s" % (item.level.value, item.card or "-", item.what))
    for row in survey["holders"]:
        print("   pid %-7d zombie=%-5s listed=%-5s %s" % (row["pid"], row["zombie"], row["listed"], row["why"]))
    raw = {name: gpu_query.run_tool(words) for name, words in _RAW.items()}
    return {"survey": survey, "health": [item.as_dict() for item in health], "raw": raw, "took_s": round(took_s, 1)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
