"""Ask one tool of many files through its worker, without a network and with a folder of signs of its own."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .gather import HERE, ROOT, SCANNERS_PYTHON, alone

TOOLS = ("leasehold", "picklescan", "fickling", "modelscan")
LIMIT_S = 60.0  # longer is a hang
_WORKERS = 3


def trace_folder(place: Path) -> Path:
    """Return the folder for the signs of payloads and watched processes; each worker has its own mounted there."""
    return place / "trace"


def ask_all(tool: str, paths: Sequence[Path], place: Path) -> dict[str, dict[str, Any]]:
    """Return a tool's answer for each path; several workers share them, each with signs of its own."""
    home = place / "home"
    home.mkdir(exist_ok=True)
    parts = [paths[number::_WORKERS] for number in range(_WORKERS)]
    with ThreadPoolExecutor(_WORKERS) as pool:
        answered = pool.map(lambda number: _ask(tool, parts[number], place, number), range(_WORKERS))
        return {answer["path"]: answer for part in answered for answer in part}


def _ask(tool: str, paths: Sequence[Path], place: Path, number: int) -> list[dict[str, Any]]:
    own, trace, home = place / f"signs-{tool}-{number}", trace_folder(place), place / "home"
    for folder in (own, trace):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o1777)
    for left in own.iterdir():
        left.rmdir() if left.is_dir() else left.unlink()
    python = sys.executable if tool == "leasehold" else str(SCANNERS_PYTHON)
    worker = shlex.join([python, "-m", "bench.corpora.worker", tool, str(trace), str(LIMIT_S)])
    mount = shlex.join(["mount", "--bind", str(own), str(trace)])
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        "LEASEHOLD_WATCHED": str(watched_python(place)),
    }  # fmt: skip
    questions = "".join(json.dumps(str(path)) + "\n" for path in paths)
    done = subprocess.run(
        [*alone(), "/bin/sh", "-c", f"{mount} && exec {worker}"], input=questions, cwd=home, env=environment,
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(paths):
        raise RuntimeError(f"{tool} answered for {len(answers)} of {len(paths)} files: {done.stderr[-2000:]}")
    return answers


def watched_python(place: Path) -> Path:
    """Write a program that runs this Python under watch; the confined processes are started with it."""
    script = place / "watched-python"
    words = [sys.executable, "-I", "-S", "-B", str(HERE / "watch.py"), str(trace_folder(place))]
    script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    script.chmod(0o755)
    return script
