"""The gate before each attempt: bytes and inodes that it will need, against what the disk has."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

from leasehold.caretaker.run.run_folder import RunFolder

MARGIN_BYTES = 32 << 20  # logs, journal and the reserve
MARGIN_INODES = 64
_KEPT_CHECKPOINTS = 2  # best and last
_GB = 1e9


def need_bytes(plan: Dict[str, Any], attempt: int) -> int:
    """Reckon what an attempt will still write: all of it at first, later one checkpoint beside the old one."""
    job = plan.get("job", {})
    checkpoint = int((job.get("checkpoint") or {}).get("size_bytes") or 0)
    if attempt > 1:
        return checkpoint + MARGIN_BYTES
    return int(job.get("disk_bytes") or 0) + _KEPT_CHECKPOINTS * checkpoint + MARGIN_BYTES


def shortage(folder: RunFolder, plan: Dict[str, Any], name: str, attempt: int) -> Optional[Dict[str, Any]]:
    """Say what the disk lacks for the next attempt, in the words of `disk_short`; None when it suffices."""
    path = folder.out(name)
    try:
        disk = os.statvfs(path)
    except OSError:
        return None  # the attempt itself will say it better
    free, need = disk.f_bavail * disk.f_frsize, need_bytes(plan, attempt)
    if free < need:
        hint = "%.1f GB more are needed: a larger disk, or lease disk to see what lies there" % ((need - free) / _GB)
        return {"path": path, "what": "bytes", "free": free, "need": need, "hint": hint}
    if disk.f_files and disk.f_favail < MARGIN_INODES:
        hint = "remove small files, or pack them: this disk counts files"
        return {"path": path, "what": "inodes", "free": disk.f_favail, "need": MARGIN_INODES, "hint": hint}
    return None


def say(short: Dict[str, Any]) -> str:
    """Spell a shortage as a reason; home tells by its first word that nothing was started."""
    if short["what"] == "inodes":
        had = "has %d inodes left, the attempt needs %d" % (short["free"], short["need"])
    else:
        had = "has %.2f GB free, the attempt needs %.2f GB" % (short["free"] / _GB, short["need"] / _GB)
    return "disk.short: %s %s; %s" % (short["path"], had, short["hint"])


def say_need(folder: RunFolder, plan: Dict[str, Any], name: str, largest_bytes: int) -> str:
    """Say how much room is lacking on a disk that was full: for one more of the largest thing that lies there."""
    path = folder.out(name)
    try:
        disk = os.statvfs(path)
    except OSError:
        return "make room on %s, then run the identical command" % path
    if disk.f_files and disk.f_favail < MARGIN_INODES:
        return "%s has %d inodes left: remove or pack small files, then run the identical command" % (
            path,
            disk.f_favail,
        )
    need = max(need_bytes(plan, 2), largest_bytes + MARGIN_BYTES)
    lacking = max(need - disk.f_bavail * disk.f_frsize, MARGIN_BYTES)
    said = "about %.2f GB more are needed on %s" % (lacking / _GB, path)
    return said + ": a larger disk, or room made there; then run the identical command"
