"""Checked copy to the durable tier: hashed while it is read, read back and hashed again, then renamed as a whole.

A log line is no proof: only bytes that were read back count. A failed copy is a failure of the run, even after
training exited 0; resuming the run tries the copy again and trains nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from functools import partial
from typing import Any, Callable, Dict, Iterator, Optional

from leasehold.caretaker.process.locks import wait_lock
from leasehold.caretaker.process.parallel import ahead
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files import manifest
from leasehold.kit.files.atomic import fsync_folder, read_json, read_small, write_all, write_atomic, write_json
from leasehold.kit.files.paths import open_below
from leasehold.kit.files.sha256 import blocks, hash_blocks
from leasehold.kit.refuge.read_back import LAG_S, forget_cached, sha256_of, size_of, wait_for
from leasehold.kit.testing.kill_points import pause_at

from .durable_watch import target_of

_SPARE_BYTES = 64 << 20
_SPARE_INODES = 16
_SMALL_BYTES = 1 << 20
_LOCK_WAIT_S = 3600.0
_SYNC_EVERY_BYTES = 64 << 20  # a slow mount then shows progress, not one long silence at the end of a file
_TELL_EVERY_S = 1.0
_GONE = (errno.EROFS, errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ENODEV, errno.ENOENT)


class CopyFailed(Exception):
    """The copy is not complete; str() gives the reason and the remedy."""


def why_not(platform: Dict[str, Any], beside: str = "") -> str:
    """Return why there is no destination to copy to; empty when there is one. `beside` is the source folder."""
    tier = str(platform.get("durable", ""))
    if not tier:
        return "the platform has no durable tier"
    if not os.path.isdir(tier):
        return "%s is not attached" % tier
    if platform.get("durable_apart"):  # named by a person: it may lie below a mount, but not on the run's own disk
        same = os.stat(tier).st_dev == os.stat(beside or tier).st_dev
        return "%s is on the same file system as the run: a copy there would go with it" % tier if same else ""
    if not platform.get("durable_is_folder") and not os.path.ismount(tier):
        return "%s is no mount: a copy there would lie on the system disk" % tier
    return ""


def copy_run(folder: RunFolder, lag_s: float = LAG_S) -> int:
    """Copy every finished cell's artifacts; record the outcome in durable.json. One copier at a time."""
    lock = wait_lock(folder.durable_lock, _LOCK_WAIT_S)
    if lock is None:
        return 1
    platform = folder.platform()
    progress = Progress(folder)
    try:
        progress.begin("looking", 0, 0)  # the first look at a hanging mount never returns
        why = why_not(platform, folder.path)
        outcome = {"ok": True, "skipped": why} if why else Copier(folder, progress, lag_s).copy()
    except (CopyFailed, manifest.ManifestError, OSError) as error:
        outcome = {"ok": False, "problem": _said(error)}
    write_json(folder.durable, outcome)
    os.close(lock)
    return 0 if outcome["ok"] else 2


class Progress:
    """Reports how far the copier is, so that the caretaker can detect a mount that no longer answers."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.durable_progress
        self._shown: Dict[str, Any] = {}
        self._told_at = 0.0
        self._lock = threading.Lock()

    def begin(self, phase: str, files: int, total_bytes: int) -> None:
        """Report the current step and its total."""
        self._shown = {"phase": phase, "bytes": 0, "of_bytes": total_bytes, "files": files}
        self._tell()

    def tick(self, count: int) -> None:
        """Count bytes; report them at intervals."""
        with self._lock:
            self._shown["bytes"] += count
            if time.monotonic() - self._told_at > _TELL_EVERY_S:
                self._tell()

    def _tell(self) -> None:
        self._told_at = time.monotonic()
        write_json(self._path, self._shown, durable=False)


class Copier:
    """Copies one run to the durable tier."""

    def __init__(self, folder: RunFolder, progress: Progress, lag_s: float) -> None:
        self.folder = folder
        self.progress = progress
        self.lag_s = lag_s
        self.target = target_of(folder.platform())
        self.tier = os.path.dirname(self.target)
        self.disk = os.stat(self.tier).st_dev
        self.export = os.path.join(self.target, "export", folder.run)
        self.partial = os.path.join(self.target, ".partial", folder.run)

    def copy(self) -> Dict[str, Any]:
        """Copy, read back, and only then rename to the name that marks a complete copy."""
        plan = self.folder.read_plan() or {}
        cells = {name: self.folder.out(name) for name in plan["cells"]}
        sealed = manifest.build(self.folder.run, plan["plan_sha256"], cells, plan["patterns"])
        there = _read_sealed(os.path.join(self.export, "manifest.json"))
        if there is not None and there.get("cells") == sealed["cells"] and not self._damage(self.export, sealed, 0.0):
            return _outcome(sealed, self.export, "was there already")
        os.makedirs(self.partial, exist_ok=True)
        _check_space(self.target, self.partial, sealed)
        pause_at("durable_checked", "after")
        self.progress.begin("copying", sealed["totals"]["files"], sealed["totals"]["bytes"])
        for _ in self._each(sealed, self._copy_entry):
            pass
        _drop_strangers(self.partial, sealed)
        spelled = manifest.encode(sealed)
        write_atomic(os.path.join(self.partial, "manifest.json"), spelled)
        pause_at("durable_written", "after")
        damage = self._damage(self.partial, sealed, self.lag_s)
        if damage:
            raise CopyFailed("read back from %s: %s" % (self.target, damage))
        _put_in_place(self.partial, self.export)
        self._see_in_place(sealed, spelled)
        return _outcome(sealed, self.export, "copied and read back")

    def _each(self, sealed: Dict[str, Any], work: Callable[[Any], Any]) -> Iterator[Any]:
        """Process every file: small ones several at once, since a slow mount answers each of them late."""
        small = [pair for pair in _entries(sealed) if pair[1]["bytes"] <= _SMALL_BYTES]
        yield from ahead(work, small)
        for pair in _entries(sealed):
            if pair[1]["bytes"] > _SMALL_BYTES:
                yield work(pair)

    def _copy_entry(self, pair: Any) -> None:
        cell, entry = pair
        self._same_disk()
        self._copy_file(self.folder.out(cell), entry, os.path.join(self.partial, "cells", cell, entry["path"]))

    def _same_disk(self) -> None:
        """Detect a tier that was unmounted meanwhile: its empty mount point takes files, on the box's own disk."""
        if os.stat(self.tier).st_dev != self.disk:
            raise CopyFailed("%s is another disk now than when the copy began; was it detached?" % self.tier)

    def _copy_file(self, root: str, entry: Dict[str, Any], to: str) -> None:
        """Copy one file to a temporary name beside its own and rename it; keep one that already has the right bytes."""
        if size_of(to) == entry["bytes"] and sha256_of(to, self.progress.tick) == entry["sha256"]:
            return
        os.makedirs(os.path.dirname(to), exist_ok=True)
        temp = to + ".part"
        source = open_below(root, entry["path"])
        try:
            fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o644)
            try:
                digest = self._pour(source, fd)
            finally:
                os.close(fd)
        finally:
            os.close(source)
        if digest != entry["sha256"]:
            raise CopyFailed("%s changed while it was copied; is something still writing it?" % entry["path"])
        os.replace(temp, to)

    def _pour(self, source: int, to: int) -> str:
        """Copy the bytes and hash them; sync them to disk at intervals and at the end."""
        unsynced = 0

        def write(block: bytes) -> None:
            nonlocal unsynced
            write_all(to, block)
            unsynced += len(block)
            if unsynced >= _SYNC_EVERY_BYTES:
                os.fsync(to)
                unsynced = 0
            self.progress.tick(len(block))

        _, sha256 = hash_blocks(blocks(partial(os.read, source)), each=write)
        os.fsync(to)
        forget_cached(to)
        return sha256

    def _damage(self, folder: str, sealed: Dict[str, Any], lag_s: float) -> str:
        """Re-read everything; return the first file that differs from the sealed one."""
        self.progress.begin("reading back", sealed["totals"]["files"], sealed["totals"]["bytes"])
        return next(filter(None, self._each(sealed, lambda pair: self._damage_of(folder, pair, lag_s))), "")

    def _damage_of(self, folder: str, pair: Any, lag_s: float) -> str:
        cell, entry = pair
        path = os.path.join(folder, "cells", cell, entry["path"])
        if not _shows(path, entry["bytes"], lag_s):
            shown = size_of(path)
            has = "is not there" if shown < 0 else "has %d bytes" % shown
            return "%s/%s %s, written were %d bytes" % (cell, entry["path"], has, entry["bytes"])
        differs = sha256_of(path, self.progress.tick) != entry["sha256"]
        return "%s/%s differs from what was written" % (cell, entry["path"]) if differs else ""

    def _see_in_place(self, sealed: Dict[str, Any], spelled: bytes) -> None:
        """Check the copy under its final name as the next reader will see it; take the name back if the check fails."""
        marker = os.path.join(self.export, "manifest.json")
        wanted = {os.path.join(self.export, "cells", cell, e["path"]): e["bytes"] for cell, e in _entries(sealed)}
        shown = wait_for(lambda: read_small(marker) == spelled, self.lag_s)
        shown = shown and all(_shows(path, size, self.lag_s) for path, size in wanted.items())
        self._same_disk()
        if not shown:
            with contextlib.suppress(OSError):
                os.rename(self.export, self.partial)
            raise CopyFailed("%s was renamed into place and does not show what was written" % self.export)


def _outcome(sealed: Dict[str, Any], export: str, how: str) -> Dict[str, Any]:
    return {"ok": True, "to": export, "how": how, "cells": sorted(sealed["cells"]), **sealed["totals"]}


def _entries(sealed: Dict[str, Any]) -> Iterator[Any]:
    for cell, entries in sorted(sealed["cells"].items()):
        for entry in entries:
            yield cell, entry


def _check_space(target: str, partial: str, sealed: Dict[str, Any]) -> None:
    """Check bytes and inodes before the first byte: network disks run out of inodes while bytes are plenty."""
    disk = os.statvfs(target)
    missing = [
        entry for cell, entry in _entries(sealed)
        if size_of(os.path.join(partial, "cells", cell, entry["path"])) != entry["bytes"]
    ]  # fmt: skip
    bytes_needed = sum(entry["bytes"] for entry in missing) + _SPARE_BYTES
    bytes_free = disk.f_bavail * disk.f_frsize
    if bytes_needed > bytes_free:
        raise CopyFailed("%s has %d MB free, the copy needs %d MB" % (target, bytes_free >> 20, bytes_needed >> 20))
    folders = {os.path.dirname(entry["path"]) for entry in missing}
    inodes_needed = len(missing) + len(folders) + _SPARE_INODES
    if disk.f_files and inodes_needed > disk.f_favail:
        raise CopyFailed("%s has %d inodes left, the copy needs %d" % (target, disk.f_favail, inodes_needed))


def _drop_strangers(partial: str, sealed: Dict[str, Any]) -> None:
    """Remove files that an earlier, interrupted copy left and this one does not promise."""
    wanted = {os.path.join("cells", cell, entry["path"]) for cell, entry in _entries(sealed)}
    for place, _, names in os.walk(partial):
        for name in names:
            path = os.path.relpath(os.path.join(place, name), partial)
            if path not in wanted:
                os.unlink(os.path.join(partial, path))


def _put_in_place(partial: str, export: str) -> None:
    """Rename the complete copy; move a former export of the same run aside and never delete it."""
    os.makedirs(os.path.dirname(export), exist_ok=True)
    if os.path.isdir(export):
        aside = "%s--%d" % (export, os.stat(export).st_mtime_ns)
        os.rename(export, aside)
    os.rename(partial, export)
    fsync_folder(os.path.dirname(export))


def _read_sealed(path: str) -> Optional[Dict[str, Any]]:
    try:
        return read_json(path)
    except OSError:
        return None


def _shows(path: str, size: int, lag_s: float) -> bool:
    return wait_for(lambda: size_of(path) == size, lag_s)


def _said(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    where = os.path.dirname(os.fsdecode(error.filename or ""))
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        disk = os.statvfs(where) if where and os.path.isdir(where) else None
        left = (disk.f_bavail * disk.f_frsize) >> 20 if disk is not None else None
        inodes = disk.f_favail if disk is not None else None
        return "no space left in %s (%s MB and %s inodes free)" % (where or "the durable tier", left, inodes)
    if error.errno in _GONE:
        return "%s takes no files any more (%s); is it attached and writable?" % (where or "the tier", error.strerror)
    return str(error)
