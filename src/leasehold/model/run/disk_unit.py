"""Files on a box's disks: units as the box counted them, checked, since nothing a box sends is trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_MOST = 1 << 62
_COUNTS = ("bytes", "frees_bytes", "inodes", "names", "length", "foreign")


@dataclass(frozen=True)
class DiskUnit:
    """A file or folder of one class."""

    path: str
    kind: str
    tier: str
    bytes: int
    frees_bytes: int
    inodes: int
    names: int
    length: int
    newest_unix: float
    is_folder: bool
    divided: bool
    partial: bool
    foreign: int
    open_by: tuple[int, ...]
    identity: tuple[int, int, int, int]

    def as_target(self) -> dict[str, Any]:
        """Return what the box must find again before it touches the unit."""
        keys = ("path", "bytes", "names", "length")
        return {**{key: getattr(self, key) for key in keys}, "identity": list(self.identity)}


def unit_from(value: Any) -> DiskUnit:
    """Read one unit from the wire; ValueError, KeyError or TypeError if it is invalid."""
    facts: dict[str, Any] = {name: _count(value[name]) for name in _COUNTS}
    facts.update({name: str(value[name]) for name in ("path", "kind", "tier")})
    facts.update({name: bool(value[name]) for name in ("is_folder", "divided", "partial")})
    if not facts["path"].startswith("/"):
        raise ValueError(f"{facts['path']!r} is not an absolute path")
    device, inode, size, mtime_ns = (int(number) for number in value["identity"])
    return DiskUnit(
        **facts,
        newest_unix=float(value["newest_unix"]),
        open_by=tuple(int(pid) for pid in value["open_by"]),
        identity=(device, inode, size, mtime_ns),
    )  # fmt: skip


def _count(value: Any) -> int:
    number = int(value)
    if not 0 <= number < _MOST:
        raise ValueError(f"{value!r} is not a count")
    return number


def tier_from(value: Any) -> dict[str, Any]:
    """Read one surveyed place from the wire."""
    room = ("total_bytes", "usable_bytes", "free_bytes", "total_inodes", "free_inodes")
    return {
        **{name: str(value[name]) for name in ("path", "real", "mount", "filesystem", "stopped_at")},
        **{name: _count(value[name]) for name in (*room, "entries", "unread_count")},
        **{name: bool(value[name]) for name in ("complete", "rough", "read_only")},
        "totals": {str(kind): [_count(number) for number in sums] for kind, sums in value["totals"].items()},
        "unread": [str(path) for path in value["unread"]],
        "deleted_open": [_held_from(item) for item in value["deleted_open"]],
    }


def quarantine_from(value: Any) -> dict[str, Any]:
    """Read a box's description of one quarantine."""
    known = {"stamp": str(value["stamp"]), "items": _count(value["items"]), "bytes": _count(value["bytes"])}
    return {**known, "paths": [str(path) for path in value["paths"]]}


def trend_from(value: Any) -> dict[str, Any]:
    """Read the patrol's forecast of when a disk is full."""
    soon = {name: float(value[name]) for name in ("bytes_full_in_s", "inodes_full_in_s") if name in value}
    return {"run": str(value["run"]), "mount": str(value["mount"]), **soon}


def result_from(value: Any) -> dict[str, Any]:
    """Read the result for one target."""
    return {"path": str(value["path"]), "done": value["done"] is True, "problem": str(value["problem"])}


def _held_from(value: Any) -> dict[str, Any]:
    pids = [int(pid) for pid in value["pids"]]
    commands = [str(command) for command in value["commands"]]
    return {"path": str(value["path"]), "bytes": _count(value["bytes"]), "pids": pids, "commands": commands}
