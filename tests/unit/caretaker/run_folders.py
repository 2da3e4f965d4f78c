"""Run folders for tests of what works on one, without a caretaker."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, List

from leasehold.caretaker.run.run_folder import RunFolder


def make(tmp_path: Path, patterns: List[str], **job: Any) -> RunFolder:
    """Make a run with one cell, its plan and its empty folders."""
    folder = RunFolder(str(tmp_path / "root" / "active" / "toy-0123456789"))
    for place in (folder.out("main"), folder.cell("main")):
        os.makedirs(place)
    plan = {
        "job": {"run": "true", "checkpoint": {}, **job},
        "cells": ["main"],
        "patterns": patterns,
        "plan_sha256": "p",
        "attempts": 3,
    }
    Path(folder.plan).write_text(json.dumps(plan))
    return folder


def plan_of(folder: RunFolder) -> Dict[str, Any]:
    """Read the plan back."""
    return dict(json.loads(Path(folder.plan).read_text()))


def put(folder: RunFolder, name: str, text: str = "x", at: float = 0.0) -> Path:
    """Write a result of the cell, at a time if one is named."""
    path = Path(folder.out("main"), name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if at:
        os.utime(path, (at, at))
    return path


def journal(folder: RunFolder, *events: Dict[str, Any]) -> None:
    """Write the journal."""
    lines = [json.dumps({"n": n, "t": 1000.0 + n, **event}) + "\n" for n, event in enumerate(events, 1)]
    Path(folder.journal).write_text("".join(lines))
