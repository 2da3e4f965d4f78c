"""The trainer's log lines: progress in the format that `lease watch` reads, and the result of each save."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Dict, Mapping, Optional

_EVERY_S = 5.0

Say = Callable[[str], None]


def to_stderr(line: str) -> None:
    """Write a line to stderr, as trainers do."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def numbers(metrics: Optional[Mapping[str, Any]]) -> Dict[str, float]:
    """Convert metrics into plain numbers; this waits for their device."""
    found = {}
    for name, value in (metrics or {}).items():
        try:
            found[str(name)] = float(value.item() if hasattr(value, "item") else value)
        except (TypeError, ValueError):
            continue
    return found


class ProgressLines:
    """Prints the step every few seconds, so that a log stays short and reading numbers stays cheap."""

    def __init__(self, total: Optional[int], say: Say) -> None:
        self._total, self._say = total, say
        self._said_at: Optional[float] = None
        self._said_step = 0

    def step(self, done: int, epoch: Optional[float], metrics: Optional[Mapping[str, Any]], now: float) -> None:
        """Print the step if it is time, at the first step and at the last one."""
        last = done == self._total
        if self._said_at is not None and now - self._said_at < _EVERY_S and not last:
            return
        self._say(spell_progress(done, self._total, epoch, numbers(metrics)) + self._rate(done, now))
        self._said_at, self._said_step = now, done

    def _rate(self, done: int, now: float) -> str:
        if self._said_at is None or now <= self._said_at or done <= self._said_step:
            return ""
        return " %.3g it/s" % ((done - self._said_step) / (now - self._said_at))


def spell_progress(done: int, total: Optional[int], epoch: Optional[float], values: Mapping[str, float]) -> str:
    """Format one line of progress."""
    of = "/%d" % total if total else ""
    at = "epoch %g " % epoch if epoch is not None else ""
    return " ".join(["%sstep %d%s" % (at, done, of), *("%s=%.6g" % item for item in values.items())])


def free_bytes(folder: str) -> int:
    """Return how many bytes an ordinary user may still write there."""
    if not hasattr(os, "statvfs"):
        import shutil

        return shutil.disk_usage(folder).free
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
