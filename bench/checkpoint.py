"""Saving and restoring a training's state, beside torch.save, the disk and a plain read of the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .rounds import Effort, user_environment
from .rows import Goal, MissingPart, Row

_SOURCES = Path(__file__).resolve().parents[1] / "src"
_MADE = Path(__file__).resolve().parents[1] / ".venv-frameworks" / "bin" / "python"  # by `make frameworks`
_TIMEOUT_S = 1800


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the stall, the way to the disk and the way back; with a cuda device, those of a state on it, too."""
    python = _python_with_torch()
    yield from _rows(python, "cpu", effort.choose(full=1024, quick=128), effort)
    if _has_cuda(python):
        yield from _rows(python, "cuda", effort.choose(full=7680, quick=512), effort)


def _rows(python: str, device: str, megabytes: int, effort: Effort) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as place:
        found = _run(python, [place, str(megabytes), str(effort.choose(full=5, quick=2)), device])
    taken, size = found["taken"], found["bytes"] / 1e6
    what = f"{found['bytes'] / 1e9:.1f} GB on {found.get('gpu', 'the CPU')}"
    goal = Goal("ratio", "≤", 0.1) if device == "cpu" else None
    yield Row("checkpoint", f"stall for {what}", "s", taken["stall"], taken["torch_save"], "torch.save", goal)
    if device != "cpu":
        limit = (taken["pinned_copy"], "copy to pinned memory")
        yield Row("checkpoint", f"stall for {what}", "s", taken["stall"], *limit, Goal("ratio", "≤", 2.0))
        yield Row("checkpoint", f"stall for {what}", "s", taken["stall"], taken["dcp_async_stall"], "dcp.async_save")
    speed = {name: [size / seconds for seconds in taken[name]] for name in ("durable", "raw_write", "direct_write")}
    on_disk = f"{what} on the disk, hashed"
    peer = (speed["raw_write"], "write + fsync")
    yield Row("checkpoint", on_disk, "MB/s", speed["durable"], *peer, Goal("ratio", "≥", 0.8))
    yield Row("checkpoint", on_disk, "MB/s", speed["durable"], speed["direct_write"], "O_DIRECT write + fsync")
    for end, where in (("", "from the disk"), ("_warm", "from the page cache")):
        peer = (taken["read" + end], "read the file")
        yield Row(
            "checkpoint",
            f"restore and verify {what}, {where}",
            "s",
            taken["restore" + end],
            *peer,
            Goal("ratio", "≤", 1.2),
        )
    yield Row("checkpoint", f"host memory for {what}", "MB", [found["host_bytes"] / 1e6], [size], "the state")


def _run(python: str, words: list[str]) -> dict[str, dict[str, list[float]]]:
    script = str(Path(__file__).with_name("checkpoint_rounds.py"))
    environment = user_environment(PYTHONPATH=str(_SOURCES))
    done = subprocess.run(
        [python, "-W", "ignore", script, *words], env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the rounds failed: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _python_with_torch() -> str:
    for python in (os.environ.get("LEASEHOLD_FRAMEWORK_PYTHON", ""), sys.executable, str(_MADE)):
        if python and os.path.exists(python) and _says(python, "import torch"):
            return python
    raise MissingPart("no Python with torch here: `make frameworks`, or name one with LEASEHOLD_FRAMEWORK_PYTHON")


def _has_cuda(python: str) -> bool:
    return _says(python, "import torch, sys; sys.exit(not torch.cuda.is_available())")


def _says(python: str, line: str) -> bool:
    return subprocess.run([python, "-c", line], capture_output=True, check=False).returncode == 0
