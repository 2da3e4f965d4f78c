"""Hashes that the box has taken before: a file that has not changed since is not read again for its sum."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional

from leasehold.kit.files.atomic import read_json, write_json

SCHEMA = "leasehold.hashes/1"
_RACY_NS = 2 * 10**9  # a file changed this recently may change again within one tick of its clock
_SAVE_EVERY_S = 5.0


class HashMemory:
    """What was hashed, by name, bound to size, times and inode; lost or broken, it is only slower."""

    def __init__(self, path: str) -> None:
        self._path = path
        kept = read_json(path) or {}
        files = kept.get("files") if kept.get("schema") == SCHEMA else None
        self._known: Dict[str, Any] = files if isinstance(files, dict) else {}
        self._fresh: Dict[str, Any] = {}
        self._doubted = False
        self._saved_at = time.monotonic()

    def find(self, key: str, info: os.stat_result) -> Optional[Dict[str, Any]]:
        """Return what was noted of this very file, if it is still the same."""
        noted = self._known.get(key)
        if not isinstance(noted, dict) or noted.get("is") != _identity(info):
            return None
        self._fresh[key] = noted
        return noted

    def note(self, key: str, info: os.stat_result, what: Dict[str, Any]) -> None:
        """Remember a file's sum; one that was written a moment ago is not to be trusted to its times."""
        if time.time_ns() - max(info.st_mtime_ns, info.st_ctime_ns) < _RACY_NS:
            return
        self._fresh[key] = {"is": _identity(info), **what}
        if time.monotonic() - self._saved_at > _SAVE_EVERY_S:
            self.save()

    def doubt(self, key: str, sha256: str) -> None:
        """Forget a sum that a full read contradicts: the file was changed behind its own times."""
        noted = self._known.get(key)
        if isinstance(noted, dict) and noted.get("sha256") != sha256:
            del self._known[key]
            self._doubted = True

    def save_doubts(self) -> None:
        """Keep what was forgotten, if anything was."""
        if self._doubted:
            self.save()

    def save(self) -> None:
        """Keep it for the next connection; a full disk only costs time later."""
        self._saved_at = time.monotonic()
        try:
            write_json(self._path, {"schema": SCHEMA, "files": {**self._known, **self._fresh}}, durable=False)
        except OSError:
            return


def _identity(info: os.stat_result) -> List[int]:
    return [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]
