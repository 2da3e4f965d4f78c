"""The gate before each attempt: compare the bytes and inodes that it will need with what the disk has."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.text.units import say_bytes

MARGIN_BYTES = 32 << 20  # logs, journal and the reserve
MARGIN_INODES = 64
_KEPT_CHECKPOINTS = 2  # best and last


def need_bytes(plan: Dict[str, Any], attempt: int) -> int:
    """Estimate what an attempt will still write: everything at first, later one checkpoint beside the old one."""
    job = plan.get("job", {})
    checkpoint = int((job.get("checkpoint") or {}).get("size_bytes") or 0)
    if attempt > 1:
        return checkpoint + MARGIN_BYTES
    return int(job.get("disk_bytes") or 0) + _KEPT_CHECKPOINTS * checkpoint + MARGIN_BYTES


def shortage(folder: RunFolder, plan: Dict[str, Any], name: str, attempt: int) -> Optional[Dict[str, Any]]:
    """Return what the disk lacks for the next attempt, in the terms of `disk_short`; None when there is enough."""
    path = folder.out(name)
    try:
        disk = os.statvfs(path)
    except OSError:
        return None  # the attempt itself reports it more clearly
    free, need = disk.f_bavail * disk.f_frsize, need_bytes(plan, attempt)
    if free < need:
        hint = "%s more are needed: a larger disk, or lease box disk to see what lies there" % say_bytes(need - free)
        return {"path": path, "what": "bytes", "free": free, "need": need, "hint": hint}
    if disk.f_files and disk.f_favail < MARGIN_INODES:
        hint = "remove small files, or pack them: this disk counts files"
        return {"path": path, "what": "inodes", "free": disk.f_favail, "need": MARGIN_INODES, "hint": hint}
    return None


def say(short: Dict[str, Any]) -> str:
    """Format a shortage as a reason; home reads from its first word that nothing was started."""
    from leasehold.kit.events import failure_events  # few disks are full

    return "disk.short: %s" % failure_events.shortage(short)


def say_need(folder: RunFolder, plan: Dict[str, Any], name: str, largest_bytes: int) -> str:
    """Format how much room is missing on a disk that was full: enough for one more of the largest result there."""
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
    said = "about %s more are needed on %s" % (say_bytes(lacking), path)
    return said + ": a larger disk, or room made there; then run the identical command"
