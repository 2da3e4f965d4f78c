"""Sums of the project's files, kept between commands: unchanged files are not read again."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from leasehold.kit.files.atomic import write_atomic

_RACY_NS = 2 * 10**9  # a file written this recently may change again within one tick of its clock
_SCHEMA = 1


class TreeMemory:
    """A file of sums, bound to size, both times and inode. If lost or broken, it only costs time."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known = _load(path) if path else {}
        self._used: dict[str, list[Any]] = {}
        self._new = False
        self.read: set[str] = set()  # files whose sums were unknown

    def unchanged(self, folder: str) -> dict[str, tuple[list[Any], int]]:
        """Check every known file; return the entries and modes of those that are unchanged.

        It runs while git lists the files, most of which are known.
        """
        found, lstat = {}, os.lstat
        for path, noted in self._known.items():
            try:
                info = lstat(f"{folder}/{path}")
            except (OSError, ValueError):
                continue
            if noted[:4] == [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]:
                found[path] = (noted, info.st_mode)
        return found

    def keep(self, path: str, noted: list[Any]) -> None:
        """Keep the entry of an unchanged file."""
        self._used[path] = noted

    def note(self, path: str, info: os.stat_result, size: int, digest: str) -> None:
        """Store a sum, unless the file is too young for its times to be trusted."""
        self.read.add(path)
        age_ns = time.time_ns() - max(info.st_mtime_ns, info.st_ctime_ns)
        if self._path and size == info.st_size and age_ns > _RACY_NS:
            self._used[path] = [size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, digest]
            self._new = True

    def save(self) -> None:
        """Write the current entries, if any is new."""
        if self._path is None or not self._new:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            data = json.dumps({"schema": _SCHEMA, "files": self._used}, separators=(",", ":")).encode()
            write_atomic(str(self._path), data, durable=False)
        except OSError:
            return  # a full or read-only home: the next command hashes again


def _load(path: Path) -> dict[str, list[Any]]:
    try:
        value = json.loads(path.read_bytes())
        files = value["files"] if value["schema"] == _SCHEMA else {}
        return {str(name): noted for name, noted in files.items() if isinstance(noted, list) and len(noted) == 5}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
