"""A sweep as a person runs it: cells that wait at a gate, boxes of the book, and what the boxes' journals say."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Sequence

from tests.support.box_book import pasted
from tests.support.front import LEASE, Front
from tests.support.sshd import SshBox

TRAIN = """
import json, os, time
params, out = json.loads(os.environ["LEASE_PARAMS"]), os.environ["LEASE_OUT"]
print("cell", os.environ["LEASE_CELL"], flush=True)
gate = params.get("gate")
deadline = time.time() + 600
while gate and not os.path.exists(gate) and time.time() < deadline:
    time.sleep(0.05)
card = os.environ.get("CUDA_VISIBLE_DEVICES", "")
json.dump({"loss": params["n"], "card": card, "home": os.environ["HOME"]}, open(os.path.join(out, "metrics.json"), "w"))
"""

_SAID: Dict[int, Path] = {}  # by process: where it writes what it tells


def write_sweep(person: Front, cells: Sequence[Dict[str, Any]], cost: str = "", **change: Any) -> None:
    """Write a job of these cells and its trainer; cost names the parameter that says how long one takes."""
    person.write("train.py", TRAIN)
    listed = {"list": list(cells), **({"cost": cost} if cost else {})}
    job = {"name": "sweep", "run": "python3 -I -S train.py", "cells": listed}
    person.job(**{**job, "artifacts": ["metrics.json"], **change})


def add_boxes(person: Front, boxes: Dict[str, SshBox]) -> str:
    """Put boxes into the book; return what --on takes."""
    for name, box in boxes.items():
        done = person.lease("box", "add", name, pasted(box))
        assert done.code == 0, done.said
    return ",".join(boxes)


def standing(person: Front) -> Dict[str, Dict[str, Any]]:
    """Ask how every cell stands; nothing before the sweep is written down."""
    said = json.loads(person.lease("sweep", "status", "sweep", "--json").out)
    return {cell["cell"]: cell for cell in said.get("cells", ())}


def results(person: Front) -> Dict[str, List[Dict[str, Any]]]:
    """Read every result at home, by cell."""
    found: Dict[str, List[Dict[str, Any]]] = {}
    for path in (person.project / "lease-results" / "export").glob("sweep-*/cells/*/metrics.json"):
        with contextlib.suppress(FileNotFoundError):  # a newer export took its place just now
            found.setdefault(path.parent.name, []).append(json.loads(path.read_text()))
    return found


def told(box: SshBox, *kinds: str) -> List[Dict[str, Any]]:
    """Read events of these kinds from the journals of a box's runs."""
    journals = sorted((box.home / ".leasehold" / "active").glob("sweep-*/journal.jsonl"))
    events = [json.loads(line) for path in journals for line in path.read_text().splitlines() if line.endswith("}")]
    return [event for event in events if event["k"] in kinds]


@contextlib.contextmanager
def running(person: Front, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a command beside the test; it is killed at the end if it still runs."""
    said = person.folder / ("said-%d" % time.monotonic_ns())
    with said.open("w") as file:
        child = subprocess.Popen(
            [*LEASE, *words], cwd=str(person.project), env=person.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=file, text=True,
        )  # fmt: skip
    _SAID[child.pid] = said
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def said_by(child: "subprocess.Popen[str]") -> str:
    """Read what a command beside the test has told so far."""
    return _SAID[child.pid].read_text(encoding="utf-8", errors="replace")


def until(true: Callable[[], object], what: str, patience_s: float = 60.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
