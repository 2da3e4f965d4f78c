"""Processor time of everything that a bench sets off, daemons and orphans included: the kernel counts it by cgroup."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from .rows import MissingPart

_OLD, _NEW = Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup")


class Meter:
    """A cgroup that this process has joined; what it starts from now on is counted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def used_s(self) -> float:
        """Processor seconds so far of all but this process itself."""
        usage, stat = self._folder / "cpuacct.usage", self._folder / "cpu.stat"
        if usage.exists():
            total = int(usage.read_text()) / 1e9
        else:
            total = int(stat.read_text().split("usage_usec ")[1].split()[0]) / 1e6
        own = os.times()
        return total - own.user - own.system


@contextlib.contextmanager
def metered() -> Iterator[Meter]:
    """Count what is started meanwhile; whatever still lives at the end is left to the group above."""
    above = _OLD if (_OLD / "cpuacct.usage").exists() else _NEW
    folder = above / f"leasehold-bench-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        raise MissingPart(f"processor time cannot be counted here: {error} (as root it can)") from None
    try:
        yield Meter(folder)
    finally:
        _leave(folder, above)


def _leave(folder: Path, above: Path) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                (above / "cgroup.procs").write_text(pid)
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.05)
