"""Read at every tick: disks and memory with their trends, and the resources of the trainer's processes."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from leasehold.caretaker.machine import limits
from leasehold.caretaker.process.end_processes import trainer_processes
from leasehold.caretaker.run.run_folder import RunFolder

from .trends import Trend

_FIND_EVERY_S = 60.0  # between full scans of /proc; in between only the known processes are read
_MOST_PROCESSES = 512
_TICKS_PER_S = float(os.sysconf("SC_CLK_TCK"))
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Tier(NamedTuple):
    """A place the run writes to."""

    role: str
    path: str


class Target(NamedTuple):
    """What the caretaker watches just now."""

    state: str = ""
    cell: str = ""
    attempt: int = 0
    pid: int = 0
    started: str = ""
    alarms: Tuple[str, ...] = ()


def tiers_of(folder: RunFolder) -> List[Tier]:
    """List where the run may write, the run's own folder first; a child checks later whether they are there."""
    platform = folder.platform()
    wanted = [Tier("state", folder.path), Tier("data", folder.data)]
    wanted += [Tier(role, str(platform.get(role) or "")) for role in ("durable", "scratch")]
    wanted += [Tier("tmp", os.environ.get("TMPDIR") or "/tmp"), Tier("shm", "/dev/shm")]
    return [tier for tier in wanted if tier.path.startswith("/")]


def disk_figures(path: str) -> Dict[str, int]:
    """Read bytes and inodes of the filesystem under path, as an ordinary user can fill it; empty when it is gone."""
    try:
        room, device = limits.room(path), os.stat(path).st_dev
    except OSError:
        return {}
    value = {name: room[name] for name in ("free_bytes", "total_inodes", "free_inodes")}
    return dict(value, total_bytes=room["usable_bytes"], device=device)


class Disks:
    """The tiers' last figures and trends; each filesystem once, by the role that comes first."""

    def __init__(self, tiers: Sequence[Tier]) -> None:
        self._tiers = {"disk " + tier.path: tier for tier in tiers}
        self._devices: Dict[int, str] = {}  # which tier reports a filesystem; in order of appearance
        self._facts: Dict[str, Dict[str, Any]] = {}
        self._trends: Dict[Tuple[str, str], Trend] = {}

    @property
    def questions(self) -> Dict[str, Callable[[], Any]]:
        """The probes for a child, by name."""
        return {name: _question(tier.path) for name, tier in self._tiers.items()}

    def take(self, name: str, figures: Optional[Dict[str, int]], now_s: float) -> None:
        """Store new figures of a tier; without figures, it cannot be read now."""
        tier = self._tiers[name]
        self._facts[name] = {"role": tier.role, "path": tier.path}
        if not figures or self._devices.setdefault(figures["device"], name) != name:
            return
        value: Dict[str, Any] = {key: item for key, item in figures.items() if key != "device"}
        for what in ("bytes", "inodes"):
            whole, left = value["total_" + what], value["free_" + what]
            trend = self._trends.setdefault((name, what), Trend())
            trend.add(now_s, whole - left)
            left_s = trend.left_s(whole - left, whole) if whole else None
            if left_s is not None:
                value["%s_full_in_s" % what] = round(left_s)
        self._facts[name].update(value)

    @property
    def facts(self) -> List[Dict[str, Any]]:
        """Every filesystem that was ever seen, always in the same order; one that is gone has no figures."""
        return [self._facts[name] for name in dict.fromkeys(self._devices.values())]  # mounted anew, it has two devices


def _question(path: str) -> Callable[[], Any]:
    return lambda: disk_figures(path)


class Memory:
    """The cgroup's working set against its limit."""

    def __init__(self) -> None:
        self._trend = Trend()

    def read(self, now_s: float) -> Dict[str, Any]:
        """Read it, with the prediction of when it will be full."""
        value = limits.memory()
        used, limit = value.get("used_bytes"), value.get("limit_bytes")
        if used is not None and limit:
            self._trend.add(now_s, used)
            left_s = self._trend.left_s(used, limit)
            if left_s is not None:
                value["full_in_s"] = round(left_s)
        return {name: item for name, item in value.items() if item is not None}


class Trainer:
    """The processes of the running attempt."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._found: List[int] = []
        self._found_at = -_FIND_EVERY_S
        self._target = Target()
        self._before: Tuple[float, float] = (0.0, 0.0)  # when, and CPU seconds up to then

    @property
    def pids(self) -> List[int]:
        """The processes as last seen."""
        return list(self._found)

    def read(self, target: Target, now_s: float) -> Dict[str, Any]:
        """Read memory, threads and CPU time of every process; empty while none runs."""
        if (target.pid, target.started) != (self._target.pid, self._target.started):
            self._target, self._found_at, self._before = target, now_s - _FIND_EVERY_S, (0.0, 0.0)
        if not target.pid:
            self._found = []
            return {}
        if now_s - self._found_at >= _FIND_EVERY_S:
            self._found_at = now_s
            mark = self._folder.mark(target.cell, target.attempt)
            found = trainer_processes(target.pid, target.started, mark)
            self._found = [process.pid for process in found][:_MOST_PROCESSES]
        seen = {pid: stat for pid, stat in ((pid, _stat(pid)) for pid in self._found) if stat is not None}
        self._found = list(seen)
        if not seen:
            return {}
        return self._summed(seen, now_s)

    def _summed(self, seen: Dict[int, "_Stat"], now_s: float) -> Dict[str, Any]:
        cpu_s = sum(stat.cpu_s for stat in seen.values())
        largest = max(seen, key=lambda pid: seen[pid].rss_bytes)
        value = {
            "processes": len(seen),
            "threads": sum(stat.threads for stat in seen.values()),
            "rss_bytes": sum(stat.rss_bytes for stat in seen.values()),
            "largest": {"pid": largest, "rss_bytes": seen[largest].rss_bytes},
        }
        before_s, cpu_before_s = self._before
        if before_s and now_s > before_s and cpu_s >= cpu_before_s:  # less: a process ended and took its time along
            value["cpu_percent"] = round(100 * (cpu_s - cpu_before_s) / (now_s - before_s), 1)
        self._before = (now_s, cpu_s)
        return value


class _Stat(NamedTuple):
    cpu_s: float
    threads: int
    rss_bytes: int


def _stat(pid: int) -> Optional[_Stat]:
    """Read one process; its own time and that of children it has waited for."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            text = file.read()
        fields = text[text.rindex(b")") + 2 :].split()
        if fields[0] in (b"Z", b"X"):
            return None
        ticks = sum(int(field) for field in fields[11:15])
        return _Stat(ticks / _TICKS_PER_S, int(fields[17]), int(fields[21]) * _PAGE_BYTES)
    except (OSError, ValueError, IndexError):
        return None
