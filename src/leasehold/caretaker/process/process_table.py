"""A snapshot of all processes: parents, start times, owners, CPU time."""

from __future__ import annotations

import os
import time
from typing import Dict, Iterable, List, NamedTuple, Optional, Set

from leasehold.kit.files.atomic import read_small

_COMMAND_CHARS = 200


class Entry(NamedTuple):
    """One process."""

    pid: int
    parent: int
    session: int
    started: str
    age_s: float
    user_id: int
    cpu_ticks: int


class ProcessTable:
    """The processes as they were when the table was read."""

    def __init__(self, proc: str = "/proc") -> None:
        self.proc = proc
        self.entries: Dict[int, Entry] = {}
        for name in os.listdir(proc):
            entry = self._read(int(name)) if name.isdigit() else None
            if entry is not None:
                self.entries[entry.pid] = entry

    def above(self, pid: int) -> List[int]:
        """List a process's ancestors."""
        found: List[int] = []
        entry = self.entries.get(pid)
        while entry is not None and entry.parent in self.entries and entry.parent not in found:
            found.append(entry.parent)
            entry = self.entries.get(entry.parent)
        return found

    def family(self, pids: Iterable[int]) -> Set[int]:
        """Return the pids of these jobs: the processes, their ancestors and descendants, and all of their sessions."""
        roots = {pid for pid in pids if pid in self.entries}
        kin = set(roots)
        sessions = {self.entries[pid].session for pid in roots}
        for pid, entry in self.entries.items():
            if entry.session in sessions or roots.intersection(self.above(pid)):
                kin.add(pid)
        for pid in roots:
            kin.update(self.above(pid))
        return kin

    def command(self, pid: int) -> str:
        """Return its command line, shortened; the kernel's name for it where it has none."""
        said = read_small("%s/%d/cmdline" % (self.proc, pid)).replace(b"\0", b" ").strip()
        said = said or b"[%s]" % read_small("%s/%d/comm" % (self.proc, pid)).strip()
        return said.decode("utf-8", "replace")[:_COMMAND_CHARS]

    def short_name(self, pid: int) -> str:
        """The kernel's name for it."""
        return read_small("%s/%d/comm" % (self.proc, pid)).strip().decode("utf-8", "replace")

    def open_paths(self, pid: int) -> List[str]:
        """Return the paths that it has open, as the kernel writes them; empty when it may not be inspected."""
        folder = "%s/%d/fd" % (self.proc, pid)
        found = []
        try:
            for name in os.listdir(folder):
                try:
                    found.append(os.readlink(os.path.join(folder, name)))
                except OSError:
                    continue
        except OSError:
            return []
        return found

    def _read(self, pid: int) -> Optional[Entry]:
        text = read_small("%s/%d/stat" % (self.proc, pid))
        if b")" not in text:
            return None
        fields = text[text.rindex(b")") + 2 :].split()
        if len(fields) < 20 or fields[0] in (b"Z", b"X"):
            return None
        try:
            owner = os.stat("%s/%d" % (self.proc, pid)).st_uid
        except OSError:
            return None
        age_s = age_of(fields[19].decode())
        ticks = int(fields[11]) + int(fields[12])
        return Entry(pid, int(fields[1]), int(fields[3]), fields[19].decode(), age_s, owner, ticks)


def age_of(started: str) -> float:
    """Return how long ago a process started, from the kernel's start time: ticks since the boot."""
    return max(0.0, _since_boot_s() - int(started) / os.sysconf("SC_CLK_TCK"))


def _since_boot_s() -> float:
    """Return the kernel's own clock: a container's /proc/uptime may be fabricated."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
