"""`lease --help` against a bare interpreter, and against peers' own --help where they are installed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from .rounds import LEASE, Effort, interleave, seconds_of, user_environment
from .rows import Goal, Row

_PEERS = ("torchx", "sky", "dstack", "modal", "runpodctl")  # none is a dependency


def measure(effort: Effort) -> Iterator[Row]:
    """Yield a row against `python -c pass`, and one for each installed peer."""
    environment = user_environment()
    commands = {"ours": [LEASE, "--help"], "python": [sys.executable, "-c", "pass"]}
    for name in _PEERS:
        found = shutil.which(name, path=str(Path(sys.executable).parent))
        if found:
            commands[name] = [found, "--help"]
    ways = {name: (lambda argv=argv: seconds_of(argv, environment)) for name, argv in commands.items()}
    taken = interleave(ways, effort.choose(full=41, quick=7))
    yield Row("help", "lease --help", "s", taken["ours"], taken["python"], "python -c pass", Goal("ratio", "≤", 5))
    for name in commands.keys() - {"ours", "python"}:
        yield Row("help", "lease --help", "s", taken["ours"], taken[name], f"{name} --help")
