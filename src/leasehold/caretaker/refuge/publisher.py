"""Publish a finished run's results to a bucket: files, each read back and hashed, then the manifest that names them.

What a manifest.json there names was proven there. A file that lies there with the right bytes is not sent again.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import time
from typing import Any, Dict, Iterator, Tuple

from leasehold.caretaker.process.locks import wait_lock
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files import manifest
from leasehold.kit.files.atomic import write_json
from leasehold.kit.files.canonical_json import sha256
from leasehold.kit.files.paths import open_below
from leasehold.kit.refuge.place import LYING, UNREACHABLE, Absent, Place, PlaceError, SourceChanged
from leasehold.kit.testing.kill_points import pause_at

from .opened_place import open_place

_LOCK_WAIT_S = 3600.0
_TELL_EVERY_S = 1.0
_MOST_MANIFEST = 256 << 20


def publish_run(folder: RunFolder) -> int:
    """Publish every finished cell's artifacts; record the outcome in publish.json. One publisher at a time."""
    lock = wait_lock(folder.publish_lock, _LOCK_WAIT_S)
    if lock is None:
        return 1
    plan = folder.read_plan() or {}
    to = "%s/%s" % (str(plan["job"]["publish"]).rstrip("/"), folder.run)
    try:
        outcome = _Publisher(folder, plan, to).publish()
    except PlaceError as error:
        outcome = {"ok": False, "problem": str(error), "class": error.kind, "again": error.kind == UNREACHABLE}
    except (SourceChanged, manifest.ManifestError, OSError) as error:
        outcome = {"ok": False, "problem": str(error), "class": "source", "again": False}
    write_json(folder.publish, dict(outcome, to=to))
    os.close(lock)
    return 0 if outcome["ok"] else 2


class _Publisher:
    def __init__(self, folder: RunFolder, plan: Dict[str, Any], to: str) -> None:
        self.folder = folder
        self.plan = plan
        self._shown: Dict[str, Any] = {"phase": "looking", "bytes": 0, "of_bytes": 0, "files": 0}
        self._told_at = 0.0
        self._tell()
        self.place: Place = open_place(to, folder, self._tick)

    def publish(self) -> Dict[str, Any]:
        """Send, read back, then name it all in manifest.json."""
        roots = {name: self.folder.out(name) for name in self.plan["cells"]}
        sealed = manifest.build(self.folder.run, self.plan["plan_sha256"], roots, self.plan["patterns"])
        totals, contents = sealed["totals"], manifest.contents_sha256(sealed)
        facts = {"ok": True, "files": totals["files"], "bytes": totals["bytes"], "contents_sha256": contents}
        there = {one.key: one.bytes for one in self.place.list("")}
        named = self._named() if "manifest.json" in there else ""
        self._shown.update(phase="publishing", files=totals["files"], of_bytes=totals["bytes"])
        for cell, entry in _entries(sealed):
            self._publish_file(roots[cell], "cells/%s/%s" % (cell, entry["path"]), entry, there)
        pause_at("publish_files", "after")
        if named != contents:
            spelled = manifest.encode(sealed)
            self._put("manifest.json", io.BytesIO(spelled), len(spelled), sha256(spelled))
        how = "was there already, read back" if named == contents else "copied and read back"
        return dict(facts, how=how)

    def _publish_file(self, root: str, key: str, entry: Dict[str, Any], there: Dict[str, int]) -> None:
        if there.get(key) == entry["bytes"] and self.place.read_back(key) == entry["sha256"]:
            return
        with os.fdopen(open_below(root, entry["path"]), "rb", buffering=0) as source:
            self._put(key, source, entry["bytes"], entry["sha256"])

    def _put(self, key: str, source: Any, size: int, wanted: str) -> None:
        """Put and read back; bytes that differ are sent once more before the place counts as lying."""
        for left in (1, 0):
            source.seek(0)
            self.place.put(key, source, size, wanted)
            if self.place.read_back(key) == wanted:
                return
            if not left:
                raise PlaceError(
                    LYING, "%s/%s: other bytes are read back than were sent, twice" % (self.place.where, key)
                )

    def _named(self) -> str:
        """Return the digest of what a manifest there names; empty if it is not one of ours."""
        data = b""
        with contextlib.suppress(Absent):
            data = b"".join(self.place.get("manifest.json", 0, _MOST_MANIFEST))
        try:
            return manifest.contents_sha256(manifest.parse(json.loads(data.decode("utf-8")), self.folder.run))
        except (ValueError, RecursionError, manifest.ManifestError):
            return ""

    def _tick(self, count: int) -> None:
        self._shown["bytes"] += count
        if time.monotonic() - self._told_at > _TELL_EVERY_S:
            self._tell()

    def _tell(self) -> None:
        self._told_at = time.monotonic()
        write_json(self.folder.publish_progress, self._shown, durable=False)


def _entries(sealed: Dict[str, Any]) -> Iterator[Tuple[str, Dict[str, Any]]]:
    for cell, entries in sorted(sealed["cells"].items()):
        for entry in entries:
            yield cell, entry
