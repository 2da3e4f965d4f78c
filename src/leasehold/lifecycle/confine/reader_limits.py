"""Limits on memory and processor time for reading one file: by its size and kind, or as the job states."""

from __future__ import annotations

import os
from dataclasses import dataclass

_GIB = 1024**3
_LEAST_BYTES = _GIB
_FREE_BYTES = _GIB // 4  # of a file; bytes above it may take four times their size in memory
_SHARE = 4  # no file takes more than this share of the machine's memory, unless the job says so
_START_S = 5.0
# Text is read a value at a time, and an archive is inflated: these take longer than data only summed and scanned.
_S_PER_100_MB = {"csv": 30.0, "jsonl": 15.0, "json": 15.0, "npz": 10.0}


@dataclass(frozen=True)
class Room:
    """Limits that the kernel enforces for a reader."""

    memory_bytes: int
    cpu_s: float

    def said(self) -> str:
        """Format the limits, and who can change them."""
        memory = (
            f"{self.memory_bytes / _GIB:.1f} GiB" if self.memory_bytes >= _GIB else f"{self.memory_bytes >> 20} MiB"
        )
        return (
            f"it may use {memory} of memory and {self.cpu_s:.0f} s of processor time for this file;"
            " the job can raise both (`read_memory`, `read_time` of the artifact)"
        )


def room_for(path: str, kind: str, memory_bytes: int = 0, cpu_s: float = 0.0) -> Room:
    """Return the limits for reading a file or a folder; stated limits replace those computed from its size."""
    size = _bytes_at(path)
    most = max(_LEAST_BYTES, _machine_bytes() // _SHARE)
    memory = min(most, _LEAST_BYTES + 4 * max(0, size - _FREE_BYTES))
    return Room(memory_bytes or memory, cpu_s or _START_S + size / 1e8 * _S_PER_100_MB.get(kind, 1.0))


def _bytes_at(path: str) -> int:
    try:
        if os.path.isdir(path):
            with os.scandir(path) as found:
                return sum(item.stat().st_size for item in found if item.is_file())
        return os.stat(path).st_size
    except OSError:  # its reader will report what is wrong
        return 0


def _machine_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows
        return 0
