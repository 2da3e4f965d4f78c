"""Cache of file hashes on the box: a file that has not changed since is not read again."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional

from leasehold.kit.files.atomic import read_json, write_json

SCHEMA = "leasehold.hashes/1"
_RACY_NS = 2 * 10**9  # a file changed this recently may change again within one tick of its clock
_SAVE_EVERY_S = 5.0


class HashMemory:
    """Hashes by file name, valid for one size, times and inode; losing the cache only costs time."""

    def __init__(self, path: str) -> None:
        self._path = path
        kept = read_json(path) or {}
        files = kept.get("files") if kept.get("schema") == SCHEMA else None
        self._known: Dict[str, Any] = files if isinstance(files, dict) else {}
        self._fresh: Dict[str, Any] = {}
        self._doubted = False
        self._saved_at = time.monotonic()

    def find(self, key: str, info: os.stat_result) -> Optional[Dict[str, Any]]:
        """Return the hash of this very file, if it has not changed since."""
        noted = self._known.get(key)
        if not isinstance(noted, dict) or noted.get("is") != _identity(info):
            return None
        self._fresh[key] = noted
        return noted

    def note(self, key: str, info: os.stat_result, what: Dict[str, Any]) -> None:
        """Remember a file's sum, unless it was written a moment ago: its times cannot be trusted then."""
        if time.time_ns() - max(info.st_mtime_ns, info.st_ctime_ns) < _RACY_NS:
            return
        self._fresh[key] = {"is": _identity(info), **what}
        if time.monotonic() - self._saved_at > _SAVE_EVERY_S:
            self.save()

    def doubt(self, key: str, sha256: str) -> None:
        """Forget a sum that a full read contradicts: the file changed without a change of its times."""
        noted = self._known.get(key)
        if isinstance(noted, dict) and noted.get("sha256") != sha256:
            del self._known[key]
            self._doubted = True

    def save_doubts(self) -> None:
        """Save the removals, if there were any."""
        if self._doubted:
            self.save()

    def save(self) -> None:
        """Save the cache for the next connection; a full disk only costs time later."""
        self._saved_at = time.monotonic()
        try:
            write_json(self._path, {"schema": SCHEMA, "files": {**self._known, **self._fresh}}, durable=False)
        except OSError:
            return


def _identity(info: os.stat_result) -> List[int]:
    return [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]
