"""A small honest trainer: loads the latest checkpoint, steps, checkpoints atomically, proves it was alone.

A test copies this file into a project as train.py. SIDE names a folder outside the box that outlives it:
`trainers` there is the trainers' own diary, `alone` the lock that two of them cannot hold. While `hold`
lies there the trainer lingers in mid-life (and says so in `holding`); `fail` makes it exit with 17, once.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from typing import Any, Dict

HOLD_AT = 2
HOLD_LIMIT_S = 600.0  # longer than a test waits for anything
FAILS_WITH = 17

SIDE = os.environ.get("SIDE", "")
OUT = os.environ.get("LEASE_OUT", "")


def main() -> int:
    """Train what is left to train."""
    steps, step_s = int(os.environ["STEPS"]), float(os.environ["STEP_S"])
    lock = os.open(os.path.join(SIDE, "alone"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("overlap")
        return 99
    state = load()
    note("start", state["step"])
    print("training from step %d" % state["step"], flush=True)
    while state["step"] < steps:
        if state["step"] == HOLD_AT:
            linger()
        time.sleep(step_s)
        done = state["step"] + 1
        state = {"step": done, "sum": state["sum"] + done * done}
        write(os.path.join(OUT, "checkpoint.json"), state)
        note("saved", done)
    write(os.path.join(OUT, "result.json"), {"steps": state["step"], "sum": state["sum"]})
    note("end", state["step"])
    return 0


def load() -> Dict[str, int]:
    """Read the latest checkpoint, or begin."""
    try:
        with open(os.path.join(OUT, "checkpoint.json"), encoding="utf-8") as file:
            return dict(json.load(file))
    except FileNotFoundError:
        return {"step": 0, "sum": 0}


def linger() -> None:
    """Wait here while the test wants a trainer in mid-life; fail here if it wants that."""
    open(os.path.join(SIDE, "holding"), "w").close()
    deadline = time.monotonic() + HOLD_LIMIT_S
    while os.path.exists(os.path.join(SIDE, "hold")) and time.monotonic() < deadline:
        time.sleep(0.005)
    if os.path.exists(os.path.join(SIDE, "fail")):
        os.unlink(os.path.join(SIDE, "fail"))
        note("fails", HOLD_AT)
        sys.exit(FAILS_WITH)


def write(path: str, value: Dict[str, Any]) -> None:
    """Replace path by value."""
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(path + ".tmp", path)


def note(what: str, step: int = -1) -> None:
    """Add one line to the diary: what, pid, attempt, step."""
    line = "%s %d %s %d\n" % (what, os.getpid(), os.environ.get("LEASE_ATTEMPT", "0"), step)
    fd = os.open(os.path.join(SIDE, "trainers"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


if __name__ == "__main__":
    sys.exit(main())
