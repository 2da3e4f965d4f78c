"""Measure several ways in turn, so that what else the machine does falls on all of them alike."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

LEASE = str(Path(sys.executable).parent / "lease")


@dataclass(frozen=True)
class Effort:
    """How much to spend: quick is for a look, full for a number worth keeping."""

    quick: bool = False

    def choose(self, full: int, quick: int) -> int:
        """Return the count that fits."""
        return quick if self.quick else full


def interleave(ways: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run every way once a round, in alternating order, after one round that does not count."""
    taken: dict[str, list[T]] = {name: [] for name in ways}
    for number in range(-1, rounds):
        for name in sorted(ways, reverse=bool(number % 2)):
            value = ways[name]()
            if number >= 0:
                taken[name].append(value)
    return taken


def seconds_of(argv: Sequence[str], environment: Mapping[str, str]) -> float:
    """Time one command from its start to its end, its output read and thrown away."""
    begun = time.perf_counter()
    subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.perf_counter() - begun


def user_environment(**more: str) -> dict[str, str]:
    """Copy the environment as a user's shell has it: no PYTHON* switch may slow or speed one side."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LEASE"))}
    return {**kept, **more}
