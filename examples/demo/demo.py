"""The whole life of a job in under a minute, on this machine: no account, no GPU, no root, no sshd.

The box is simulated (its folder really gets deleted at the end); everything else is the product itself,
called as you would call it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLACE = HERE.parent.parent / "build" / "demo"
LEASE = str(Path(sys.executable).parent / "lease")
ENV = {
    **os.environ,
    "LEASEHOLD_HOME": str(PLACE / "home"),
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}
OTHER_DISK = "/dev/shm"
TRAVEL = ["run", "travel.yaml", "--on"]
RUN = ["run", "--on", "local", "--rehearse", "--price", "1.98USD/h"]


def main() -> None:
    """Show a whole run, with two `kill -9`s on the way."""
    begun = time.monotonic()
    shutil.rmtree(PLACE, ignore_errors=True)
    shutil.copytree(HERE / "project", PLACE / "project")
    box = PLACE / "home" / "boxes" / "rehearsal" / "active"

    title("1. Launch: smoke on the CPU first, then detached on the box")
    lease(*RUN, "--detach")
    run = next(box.iterdir())

    title("2. kill -9 of the caretaker, then of the trainer, halfway through")
    wait_for_step(run, 100)
    caretaker = int((run / "caretaker.lock").read_text().split()[0])
    trainer = json.loads((run / "cells/main/attempt-0001/started.json").read_text())["pid"]
    kill_hard("caretaker", caretaker)
    kill_hard("trainer", trainer, group=True)

    title("3. The identical command: attaches, and the trainer goes on from its checkpoint")
    lease(*RUN)
    lease("status")

    title("4. The receipt: what the gate will read")
    export = PLACE / "project" / "lease-results" / "export" / run.name
    receipt = json.loads((export / "receipt.json").read_text())
    for key in ("run", "cells", "files", "bytes", "manifest_sha256", "confinement"):
        print(f"  {key:16} {receipt[key]}")
    print(f"  {'final metrics':16} {(export / 'cells/main/metrics.json').read_text()}")

    title("5. Tear down, but somebody touched an artifact on the box: refused")
    with open(run / "out/main/metrics.json", "a") as file:
        file.write(" ")
    lease("down", "spiral", "--rehearsal", expect=3)

    title("6. Bring it home again (a new receipt), then tear down with approval")
    lease("pull", "spiral")
    lease("down", "spiral", "--rehearsal")
    print(f"  the box's folder is gone: {not run.exists()};  the results are home: {export}")
    lease("verify", "spiral")
    outlive_the_box()
    print(f"\ndone in {time.monotonic() - begun:.0f} s; look around in {PLACE}")


def outlive_the_box() -> None:
    """Destroy a box with its disk in mid-training; the identical command on another one continues."""
    title("7. Another box, whose checkpoints are copied to a disk that outlives it; then it is destroyed")
    if not os.access(OTHER_DISK, os.W_OK):
        print(f"  (left out: {OTHER_DISK} is not writable here, and a refuge is another disk than the box's)")
        return
    with tempfile.TemporaryDirectory(dir=OTHER_DISK, prefix="lease-demo-") as refuge:
        for name in ("first", "second"):
            lease(
                "box",
                "add",
                name,
                "local",
                "--root",
                str(PLACE / name),
                "--platform",
                "generic-ssh",
                "--durable",
                refuge,
                quiet=True,
            )
        lease(*TRAVEL, "first", "--detach")
        run = next((PLACE / "first" / "active").iterdir())
        wait_for_refuge(run)
        print("  a checkpoint has left the box; kill -9 of all that runs there, and its disk is gone", flush=True)
        destroy(run)
        title("8. The identical command on another box: it goes on from there")
        lease(*TRAVEL, "second")
        receipt = json.loads((PLACE / "project/lease-results/export" / run.name / "receipt.json").read_text())
        print(f"  where it was: {', '.join(stay['box'] for stay in receipt['stays']['main'])}")


def wait_for_refuge(run: Path) -> None:
    """Wait until a checkpoint from the middle of the training lies in the refuge."""
    wait_for_step(run, 150)
    deadline = time.monotonic() + 60
    while True:
        events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
        if any(event["k"] == "refuge_copied" for event in events):
            return
        if time.monotonic() > deadline:
            sys.exit(f"demo: no checkpoint left the box in 60 s; see {run / 'journal.jsonl'}")
        time.sleep(0.05)


def destroy(run: Path) -> None:
    """End everything that a run has on its box, and delete the box's disk."""
    attempt = run / "cells/main/attempt-0001"
    os.kill(int((run / "caretaker.lock").read_text().split()[0]), signal.SIGKILL)
    os.kill(int((attempt / "claim").read_text()), signal.SIGKILL)
    os.killpg(json.loads((attempt / "started.json").read_text())["pid"], signal.SIGKILL)
    shutil.rmtree(run.parent.parent, ignore_errors=True)


def title(text: str) -> None:
    """Say what comes."""
    print(f"\n=== {text}", flush=True)


def lease(*words: str, expect: int = 0, quiet: bool = False) -> None:
    """Call the product, showing the command."""
    print(f"$ lease {' '.join(words)}", flush=True)
    shown = subprocess.DEVNULL if quiet else None
    done = subprocess.run([LEASE, *words], cwd=PLACE / "project", env=ENV, check=False, stdout=shown, stderr=shown)
    if done.returncode != expect:
        sys.exit(f"demo: `lease {' '.join(words)}` exited with {done.returncode}, expected {expect}")
    if expect:
        print(f"  (exit {done.returncode}, as it should)", flush=True)


def wait_for_step(run: Path, step: int) -> None:
    """Wait until the trainer has come this far."""
    log = run / "cells/main/attempt-0001/log"
    deadline = time.monotonic() + 30
    while f"step {step:4d}" not in log.read_text():
        if time.monotonic() > deadline:
            sys.exit(f"demo: the trainer did not reach step {step} in 30 s; see {log}")
        time.sleep(0.05)


def kill_hard(who: str, pid: int, group: bool = False) -> None:
    """Kill by pid, without warning."""
    print(f"  kill -9 {pid}   ({who})", flush=True)
    (os.killpg if group else os.kill)(pid, signal.SIGKILL)
    time.sleep(0.3)


if __name__ == "__main__":
    main()
