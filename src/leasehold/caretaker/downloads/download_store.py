"""The store in LEASE_DATA: markers with size, mtime and hash vouch for files; partial files can be resumed.

Light on imports: the caretaker asks here whether everything is already there.
"""

from __future__ import annotations

import contextlib
import os
from binascii import crc32
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.files.sha256 import blocks, hash_blocks

_SPARE_BYTES = 64 << 20
_SPARE_INODES = 32


class NoRoom(Exception):
    """The disk has no room for it; str() gives the figures."""


class Taken(Exception):
    """Another file lies at this path; str() names it."""


class Store:
    """The folder of downloads on one box, shared by its runs."""

    def __init__(self, data: str) -> None:
        self.data = data
        self._hidden = os.path.join(data, ".leasehold")

    def open(self) -> None:
        """Make the folders."""
        os.makedirs(self._hidden, exist_ok=True)

    def path(self, name: str) -> str:
        """Return the path of a finished file."""
        return os.path.join(self.data, *name.split("/"))

    def part(self, name: str) -> str:
        """Return the path where it grows until complete and checked: on the same disk, so that a rename suffices."""
        return os.path.join(self._hidden, _key(name) + ".part")

    def lock(self, to: str) -> str:
        """Lock a path: two runs never download to the same path at once."""
        return os.path.join(self._hidden, _key(to) + ".lock")

    def marker(self, to: str) -> Optional[Dict[str, Any]]:
        """Read what was downloaded to this path before."""
        found = read_json(os.path.join(self._hidden, _key(to) + ".json"))
        return found if found is not None and found.get("to") == to else None

    def finished(self, item: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
        """Return the marker if this very item is here and unchanged since."""
        marker = self.marker(item["to"])
        if marker is None or not same_item(marker, item):
            return None
        whole = all(_untouched(self.path(file["path"]), file) for file in marker["files"])
        return marker if whole and marker["files"] else None

    def refuse_other(self, item: Mapping[str, Any]) -> None:
        """Refuse to replace what another job or a person put there: a live process may be reading it."""
        marker = self.marker(item["to"])
        if marker is None or same_item(marker, item):
            return
        if any(os.path.exists(self.path(file["path"])) for file in marker["files"]):
            source = ", ".join(marker["source"])
            raise Taken("%s holds what was fetched from %s; choose another `to`, or remove it" % (item["to"], source))

    def keep(self, item: Mapping[str, Any], files: List[Dict[str, Any]], commit: str) -> None:
        """Write an item's marker: from now on, checking sizes and times is enough."""
        noted = []
        for file in files:
            info = os.stat(self.path(file["path"]))
            noted.append(dict(file, size=info.st_size, mtime_ns=info.st_mtime_ns))
        value = {"to": item["to"], "source": list(item["source"]), "files": noted, "commit": commit}
        write_json(os.path.join(self._hidden, _key(item["to"]) + ".json"), value)

    def need_room(self, more_bytes: int, more_files: int) -> None:
        """Check bytes and inodes before anything is downloaded."""
        figures = os.statvfs(self.data)
        free = figures.f_bavail * figures.f_frsize
        if free < more_bytes + _SPARE_BYTES:
            raise NoRoom("%s has %d bytes free, and %d more are needed" % (self.data, free, more_bytes + _SPARE_BYTES))
        if figures.f_files and figures.f_favail < more_files + _SPARE_INODES:
            text = "%s has %d inodes left, and %d files are to come"
            raise NoRoom(text % (self.data, figures.f_favail, more_files))

    def place(self, name: str) -> None:
        """Move a checked part to its path, atomically."""
        target = self.path(name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        fd = os.open(self.part(name), os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(self.part(name), target)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.part(name) + ".json")


class Hashes(NamedTuple):
    """Sizes and hashes of a file's bytes."""

    size: int
    sha256: str
    blob: str  # as git names it


def hash_file(path: str) -> Hashes:
    """Read a file once and hash it as sha256 and as a git blob."""
    import hashlib

    size = os.path.getsize(path)
    blob = hashlib.sha1(b"blob %d\0" % size)
    with open(path, "rb", buffering=0) as file:
        _, sha256 = hash_blocks(blocks(file.read), each=blob.update)
    return Hashes(size, sha256, blob.hexdigest())


def same_item(marker: Mapping[str, Any], item: Mapping[str, Any]) -> bool:
    """Return whether a marker is of the same bytes: the same hash, or the same source when no hash is given."""
    if item.get("sha256"):
        return [file.get("sha256") for file in marker["files"]] == [item["sha256"]]
    sizes_agree = not item.get("size_bytes") or [f.get("size") for f in marker["files"]] == [item["size_bytes"]]
    return sizes_agree and bool(set(marker["source"]) & set(item["source"]))


def _untouched(path: str, file: Mapping[str, Any]) -> bool:
    try:
        info = os.stat(path)
    except OSError:
        return False
    return (info.st_size, info.st_mtime_ns) == (file["size"], file["mtime_ns"])


def _key(name: str) -> str:
    """Return a short file name that differs for different paths; the marker itself holds the path."""
    raw = name.encode("utf-8")
    return "%s-%08x%08x" % (name.rpartition("/")[2][:40], crc32(raw), crc32(raw[::-1]))
