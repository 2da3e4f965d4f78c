"""The checked copy to the durable tier: hashed while it is read, read back and hashed again, then renamed whole.

A log line is no proof: only bytes that were read back count. A failed copy is a failure of the run, even after
training exited 0; resuming the run tries the copy again and trains nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Any, Dict, Iterator, Optional

from leasehold.kit import manifest
from leasehold.kit.atomic import fsync_folder, read_json, write_all, write_atomic, write_json
from leasehold.kit.paths import open_below

from .layout import RunFolder
from .locks import wait_lock

_BLOCK = 1 << 20
_SPARE_BYTES = 64 << 20
_SPARE_INODES = 16
_LOCK_WAIT_S = 3600.0


class CopyFailed(Exception):
    """The copy is not whole; str() says why and what to do."""


def target_of(platform: Dict[str, Any]) -> str:
    """Name our folder on the durable tier, or nothing when the platform has none."""
    tier = str(platform.get("durable", ""))
    return os.path.join(tier, "leasehold") if tier.startswith("/") else ""


def why_not(platform: Dict[str, Any]) -> str:
    """Say why there is nothing to copy to; empty when there is."""
    tier = str(platform.get("durable", ""))
    if not tier:
        return "the platform has no durable tier"
    if not os.path.isdir(tier):
        return "%s is not attached" % tier
    if not platform.get("durable_is_folder") and not os.path.ismount(tier):
        return "%s is no mount: a copy there would lie on the system disk" % tier
    return ""


def copy_run(folder: RunFolder) -> int:
    """Copy every finished cell's artifacts; leave the outcome in durable.json. One copier at a time."""
    lock = wait_lock(folder.durable_lock, _LOCK_WAIT_S)
    if lock is None:
        return 1
    plan = read_json(folder.plan) or {}
    try:
        outcome = _copy(folder, plan, target_of(folder.platform()))
    except (CopyFailed, manifest.ManifestError, OSError) as error:
        outcome = {"ok": False, "problem": _said(error)}
    write_json(folder.durable, outcome)
    os.close(lock)
    return 0 if outcome["ok"] else 2


def _copy(folder: RunFolder, plan: Dict[str, Any], target: str) -> Dict[str, Any]:
    cells = {name: folder.out(name) for name in plan["cells"]}
    sealed = manifest.build(folder.run, plan["plan_sha256"], cells, plan["patterns"])
    export = os.path.join(target, "export", folder.run)
    there = _read_sealed(os.path.join(export, "manifest.json"))
    if there is not None and there.get("cells") == sealed["cells"] and not _damage(export, sealed):
        return _outcome(sealed, export, "was there already")
    partial = os.path.join(target, ".partial", folder.run)
    os.makedirs(partial, exist_ok=True)
    _check_space(target, partial, sealed)
    for cell, entry in _entries(sealed):
        _copy_file(folder.out(cell), entry, os.path.join(partial, "cells", cell, entry["path"]))
    _drop_strangers(partial, sealed)
    write_atomic(os.path.join(partial, "manifest.json"), manifest.encode(sealed))
    damage = _damage(partial, sealed)
    if damage:
        raise CopyFailed("read back from %s: %s" % (target, damage))
    _put_in_place(partial, export)
    return _outcome(sealed, export, "copied and read back")


def _outcome(sealed: Dict[str, Any], export: str, how: str) -> Dict[str, Any]:
    return {"ok": True, "to": export, "how": how, "cells": sorted(sealed["cells"]), **sealed["totals"]}


def _entries(sealed: Dict[str, Any]) -> Iterator[Any]:
    for cell, entries in sorted(sealed["cells"].items()):
        for entry in entries:
            yield cell, entry


def _check_space(target: str, partial: str, sealed: Dict[str, Any]) -> None:
    """Bytes and inodes, before the first byte: network disks run out of inodes while bytes are plenty."""
    disk = os.statvfs(target)
    missing = [
        entry for cell, entry in _entries(sealed)
        if _size(os.path.join(partial, "cells", cell, entry["path"])) != entry["bytes"]
    ]  # fmt: skip
    bytes_needed = sum(entry["bytes"] for entry in missing) + _SPARE_BYTES
    bytes_free = disk.f_bavail * disk.f_frsize
    if bytes_needed > bytes_free:
        raise CopyFailed("%s has %d MB free, the copy needs %d MB" % (target, bytes_free >> 20, bytes_needed >> 20))
    folders = {os.path.dirname(entry["path"]) for entry in missing}
    inodes_needed = len(missing) + len(folders) + _SPARE_INODES
    if disk.f_files and inodes_needed > disk.f_favail:
        raise CopyFailed("%s has %d inodes left, the copy needs %d" % (target, disk.f_favail, inodes_needed))


def _copy_file(root: str, entry: Dict[str, Any], to: str) -> None:
    """Copy one file beside its name and rename it; one that is there with the right bytes is kept."""
    if _size(to) == entry["bytes"] and _sha256(to) == entry["sha256"]:
        return
    os.makedirs(os.path.dirname(to), exist_ok=True)
    temp = to + ".part"
    sha = _new_sha256()
    source = open_below(root, entry["path"])
    try:
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o644)
        try:
            for block in iter(lambda: os.read(source, _BLOCK), b""):
                sha.update(block)
                write_all(fd, block)
            os.fsync(fd)
            _forget_cached(fd)
        finally:
            os.close(fd)
    finally:
        os.close(source)
    if sha.hexdigest() != entry["sha256"]:
        raise CopyFailed("%s changed while it was copied; is something still writing it?" % entry["path"])
    os.replace(temp, to)


def _forget_cached(fd: int) -> None:
    """Have the read-back come from the disk and not from memory, where the system can."""
    with contextlib.suppress(OSError, AttributeError):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def _damage(folder: str, sealed: Dict[str, Any]) -> str:
    """Re-read everything; say the first file that is not what was sealed."""
    for cell, entry in _entries(sealed):
        path = os.path.join(folder, "cells", cell, entry["path"])
        if _size(path) != entry["bytes"] or _sha256(path) != entry["sha256"]:
            return "%s/%s differs from what was written" % (cell, entry["path"])
    return ""


def _drop_strangers(partial: str, sealed: Dict[str, Any]) -> None:
    """Remove what an earlier, interrupted copy left and this one does not promise."""
    wanted = {os.path.join("cells", cell, entry["path"]) for cell, entry in _entries(sealed)}
    for place, _, names in os.walk(partial):
        for name in names:
            path = os.path.relpath(os.path.join(place, name), partial)
            if path not in wanted:
                os.unlink(os.path.join(partial, path))


def _put_in_place(partial: str, export: str) -> None:
    """Rename the whole; a former export of the same run steps aside and is never deleted by us."""
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


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return -1


def _new_sha256() -> Any:
    import hashlib  # only in the copier: openssl costs 3 MB, and the caretaker imports this module

    return hashlib.sha256()


def _sha256(path: str) -> str:
    sha = _new_sha256()
    try:
        with open(path, "rb", buffering=0) as file:
            for block in iter(lambda: file.read(_BLOCK), b""):
                sha.update(block)
    except OSError as error:
        return "unreadable: %s" % error
    return str(sha.hexdigest())


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = os.path.dirname(str(error.filename or ""))
        disk = os.statvfs(where) if where and os.path.isdir(where) else None
        left = (disk.f_bavail * disk.f_frsize) >> 20 if disk is not None else None
        inodes = disk.f_favail if disk is not None else None
        return "no space left in %s (%s MB and %s inodes free)" % (where or "the durable tier", left, inodes)
    return str(error)


def outcome_of(folder: RunFolder) -> Dict[str, Any]:
    """Read what the last copier left; a copier that left nothing died."""
    return read_json(folder.durable) or {"ok": False, "problem": "the copier ended without an outcome"}
