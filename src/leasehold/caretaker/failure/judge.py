"""Find out, in a separate child, why an attempt failed: its log, its exit, the kernel, the cgroup, the disk.

The catalogue and the matcher take more memory than caretaker and keeper together; here they live only briefly.
"""

from __future__ import annotations

import os
import time
import zlib
from typing import Any, Dict, Iterator, List, Optional, Tuple

from leasehold.caretaker.machine import kernel_log, limits
from leasehold.caretaker.process.child_answer import answer
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.work_clock import newest
from leasehold.kit.failure import catalogue
from leasehold.kit.failure.classes import DISK_FULL
from leasehold.kit.failure.classify import Classed, DiskNow, classify
from leasehold.kit.failure.evidence import Context
from leasehold.kit.failure.log_scan import scan
from leasehold.kit.failure.suspects import ReadLog, suspects
from leasehold.kit.failure.who_killed_it import Vanished, descend
from leasehold.kit.files import journal
from leasehold.kit.files.globbing import walk
from leasehold.kit.run.processes import boot_id
from leasehold.kit.text.progress import ProgressReader

_READ_BYTES = 64 << 20  # of a longer log, its end
_TAIL_BYTES = 256 << 10
_CHUNK_BYTES = 1 << 20
_MOST_EVIDENCE = 8
_LINE_CHARS = 300
_LARGEST_S = 5.0
_SIGNALLED = 128
_BROKEN = ("gpu_xid", "gpu_lost", "gpu_ecc")  # patrol alarms that mean the card itself


def judge(folder: RunFolder, cell: str, attempt: int) -> int:
    """Return what failed an attempt, in the terms of `failure_classed`."""
    plan = folder.read_plan() or {}
    life = Life(journal.read_from(folder.journal, 0)[0], cell, attempt)
    log = os.path.join(folder.attempt(cell, attempt), "log")
    kernel = kernel_log.since(life.started_up_s, [life.pid])
    verdict = descend(life.vanished(folder.platform(), kernel))
    disk = _disk(folder.out(cell))
    book = catalogue.shipped()
    logs = [ReadLog("log", None, scan(book, _chunks(log, _READ_BYTES)))]
    logs.append(ReadLog("kernel log", None, scan(book, iter([kernel.text]))))
    context = Context(
        platform=str(plan.get("platform", "")),
        exit_code=life.exit_code,
        oom_kills=life.oom_kills_during(),
        inodes_used=disk.inodes_used,
        disk_used=disk.bytes_used,
    )
    found = classify(verdict, suspects(book, logs, context)[0], disk.now, life.broken)
    step = _step(log, str(plan.get("job", {}).get("progress", "auto")))
    value = _spell(found, step, _saved(folder, plan, cell, life.started_unix))
    if found.klass == DISK_FULL:
        value["largest_bytes"] = _largest(folder.out(cell))
    return answer(value)


class Life:
    """One attempt as the journal records it."""

    def __init__(self, events: List[Dict[str, Any]], cell: str, attempt: int) -> None:
        mine = [event for event in events if event.get("cell") == cell and event.get("attempt") == attempt]
        by_kind = {event["k"]: event for event in mine}
        self._start = by_kind.get("attempt_started", {})
        self._end = by_kind.get("attempt_ended", {})
        self._noticed = by_kind.get("preempt_noticed", {})
        still = [event for event in mine if event["k"] in ("stalled", "stall_over")]
        self._ended_stalled = bool(still) and still[-1].get("then") == "again"
        stopped = by_kind.get("nan_stop", {})
        self._diverged = str(stopped.get("seen", "")) if stopped else ""
        begun = [event["t"] for event in events if event["k"] in ("run_opened", "resumed")]
        self._run_unix = float(begun[-1]) if begun else 0.0
        self.started_unix = float(self._start.get("at", 0.0))
        self.started_up_s: Optional[float] = self._start.get("up_s")
        self.pid = int(self._start.get("pid", 0))
        since = self._start.get("n", 0)
        raised = [event for event in events if event["k"] == "alarm_raised" and event["n"] > since]
        broken = [event for event in raised if event.get("name") in _BROKEN and event.get("level") == "alarm"]
        self.broken = ["%s (%s)" % (event.get("what"), event.get("seen")) for event in broken]

    @property
    def exit_code(self) -> Optional[int]:
        """The code as a shell would report it."""
        ended_by = self._end.get("signal")
        return _SIGNALLED + int(ended_by) if ended_by else self._end.get("code")

    def oom_kills_during(self) -> Optional[int]:
        """Return how often the kernel killed in our cgroup since the attempt began; None when there was no counter."""
        before, now = self._start.get("oom_kills"), limits.oom_kills()
        return max(0, now - before) if isinstance(before, int) and now is not None else None

    def vanished(self, platform: Dict[str, Any], kernel: "kernel_log.Lines") -> Vanished:
        """Collect what the ladder asks for."""
        ended_unix = float(self._end.get("at", self._end.get("t", 0.0)))
        return Vanished(
            code=self._end.get("code"),
            signal=self._end.get("signal"),
            lost=bool(self._end.get("lost")),
            boot_then=str(self._start.get("boot", "")),
            boot_now=boot_id(),
            oom_kills_then=self._start.get("oom_kills"),
            oom_kills_now=limits.oom_kills(),
            stalled=self._ended_stalled,
            diverged=self._diverged,
            kernel=kernel.ours,
            kernel_readable=kernel.readable,
            noticed=str(self._noticed.get("by", "")),
            all_told=bool(self._end.get("told")),
            age_s=ended_unix - self._run_unix if self._run_unix else None,
            clocks=_clocks(platform),
        )


class _Disk:
    """The filesystem of the cell's results, as it is now."""

    def __init__(self, figures: Optional[os.statvfs_result]) -> None:
        self.now = DiskNow()
        self.bytes_used: Optional[float] = None
        self.inodes_used: Optional[float] = None
        if figures is None:
            return
        inodes = figures.f_favail if figures.f_files else None
        self.now = DiskNow(figures.f_bavail * figures.f_frsize, inodes)
        self.bytes_used = 1 - figures.f_bavail / figures.f_blocks if figures.f_blocks else None
        self.inodes_used = 1 - figures.f_favail / figures.f_files if figures.f_files else None


def _disk(path: str) -> _Disk:
    try:
        return _Disk(os.statvfs(path))
    except OSError:
        return _Disk(None)


def _clocks(platform: Dict[str, Any]) -> List[Tuple[str, float]]:
    """Read the platform's own clocks that end a run: [[name, seconds], ...]."""
    listed = platform.get("clocks")
    found = []
    for item in listed if isinstance(listed, list) else []:
        if isinstance(item, list) and len(item) == 2 and isinstance(item[1], (int, float)):
            found.append((str(item[0]), float(item[1])))
    return found


def _chunks(path: str, most_bytes: int) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - most_bytes))
            left = most_bytes
            while left > 0:
                chunk = file.read(min(_CHUNK_BYTES, left))
                if not chunk:
                    return
                left -= len(chunk)
                yield chunk
    except OSError:
        return


def _step(log: str, pattern: str) -> str:
    """Return how far it was: its own step, or else a hash of its last output."""
    tail = b"".join(_chunks(log, _TAIL_BYTES))
    reader = ProgressReader(pattern)
    reader.feed(tail.decode("utf-8", "replace") + "\n")
    step = reader.now.step
    if step is not None:
        return "step %d" % step
    return "words %08x" % zlib.crc32(b"\n".join(tail.splitlines()[-3:]).translate(catalogue.MASK))


def _saved(folder: RunFolder, plan: Dict[str, Any], cell: str, since_unix: float) -> bool:
    """Return whether the attempt left newer work than it began with: the job's checkpoint if named, else any result."""
    checkpoint = plan.get("job", {}).get("checkpoint") or {}
    return since_unix > 0 and newest(folder.out(cell), str(checkpoint.get("path") or "**")) > since_unix


def _largest(root: str) -> int:
    """Return the size of the largest result: when the disk filled up, most likely one of its kind was being written."""
    until = time.monotonic() + _LARGEST_S
    largest = 0
    try:
        for found in walk(root):
            largest = max(largest, found.info.st_size)
            if time.monotonic() > until:
                break
    except OSError:
        pass
    return largest


def _spell(found: Classed, step: str, saved: bool) -> Dict[str, Any]:
    value = found.as_event()
    value["evidence"] = [line[:_LINE_CHARS] for line in found.evidence[:_MOST_EVIDENCE]]
    value["mark"] = "%s at %s" % (found.sign, step) if found.sign else ""
    value["saved"] = saved
    return value
