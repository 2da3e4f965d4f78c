"""Data that homes uploaded: every file once, by content; runs see it through read-only folders that are never changed.

    inputs/blobs/<aa>/<sha256>   a file, complete and checked
    inputs/parts/<sha256>        one on its way: it resumes where it was, over whichever connection
    inputs/trees/<sha256>/       view of a job's entry of `data:`: the same files by their names
    inputs/trees/<sha256>.list   written last: that folder is complete. `.coming` before that

A file whose bytes were checked and synced gets one fixed time. A later write changes that time, so a look
at sizes and times shows which files must be hashed again.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

from leasehold.caretaker.wire.refused import Refused
from leasehold.kit.files.atomic import write_atomic
from leasehold.kit.files.paths import join_checked

CHECKED_NS = 946684800 * 10**9  # the first second of 2000: no file of ours is written then
LIST, COMING = ".list", ".coming"
_SPARE_BYTES = 64 << 20
_SPARE_INODES = 64
_READ_BYTES = 1 << 20
_SYNC_BYTES = 1 << 20  # larger files are synced one by one, the others all at once

Entries = List[Dict[str, Any]]


class Inputs:
    """The folder of uploaded data on one box, shared by its runs."""

    def __init__(self, root: str) -> None:
        self.folder = os.path.join(root, "inputs")
        self.parts = os.path.join(self.folder, "parts")
        self.trees = os.path.join(self.folder, "trees")

    def open(self) -> None:
        """Make the folders."""
        for place in (self.parts, self.trees, os.path.join(self.folder, "blobs")):
            os.makedirs(place, exist_ok=True)

    def blob(self, name: str) -> str:
        """Return the path of a complete file."""
        return os.path.join(self.folder, "blobs", name[:2], name)

    def part(self, name: str) -> str:
        """Return the path where it grows."""
        return os.path.join(self.parts, name)

    def view(self, tree: str) -> str:
        """Return the folder that runs are given."""
        return os.path.join(self.trees, tree)

    def listing(self, tree: str, ending: str = LIST) -> str:
        """Return the compressed list of its files."""
        return self.view(tree) + ending

    def lacking(self, entries: Entries) -> Dict[str, Tuple[int, int]]:
        """Return the size of each file that is not complete here and how much of it is; drop changed ones."""
        missing: Dict[str, Tuple[int, int]] = {}
        for name, size in {str(entry["sha256"]): int(entry["bytes"]) for entry in entries}.items():
            if not self._is_whole(name, size):
                missing[name] = (size, min(_size_of(self.part(name)), size))
        return missing

    def _is_whole(self, name: str, size: int) -> bool:
        path = self.blob(name)
        try:
            info = os.stat(path)
        except OSError:
            return False
        if info.st_size == size and info.st_mtime_ns == CHECKED_NS:
            return True
        if info.st_size == size and hash_of(path, size).hexdigest() == name:
            check_off(path)
            return True
        with contextlib.suppress(OSError):
            os.unlink(path)
        return False

    def need_room(self, entries: Entries, missing: Dict[str, Tuple[int, int]], tree: str) -> None:
        """Refuse before any byte travels; folders and, at worst, one link for each file are counted too."""
        figures = os.statvfs(self.folder)
        free = figures.f_bavail * figures.f_frsize
        more = sum(size - here for size, here in missing.values())
        if more and free < more + _SPARE_BYTES:
            text = "%s has %d bytes free; the data needs %d more, and %d are kept free"
            raise Refused("data.no_room", text % (self.folder, free, more, _SPARE_BYTES))
        folders = {str(entry["path"]).rpartition("/")[0] for entry in entries}
        fresh = 0 if os.path.isdir(self.view(tree)) else len(folders) + (0 if _links(self.folder) else len(entries))
        inodes = len(missing) + fresh + _SPARE_INODES
        if (missing or fresh) and figures.f_files and figures.f_favail < inodes:
            text = "%s has %d inodes left; the data needs %d"
            raise Refused("data.no_room", text % (self.folder, figures.f_favail, inodes))

    def lay(self, entries: Entries, tree: str) -> None:
        """Make the folder that runs are given, or repair it; each file under its name, none of them writable."""
        view = self.view(tree)
        opened: Set[str] = set()
        for entry in entries:
            path, blob = join_checked(view, entry["path"]), self.blob(str(entry["sha256"]))
            if not _is_same(path, blob):
                _open_folders(view, os.path.dirname(path), opened)
                _put_link(blob, path)
        for folder in opened:
            os.chmod(folder, 0o555)


class Coming:
    """One file on its way in. Several connections may write it at once: equal offsets hold equal bytes."""

    def __init__(self, inputs: Inputs, name: str, size: int, offset: int) -> None:
        self.name = name
        self.missing = size - offset
        self._inputs = inputs
        self._size = size
        self._path = inputs.part(name)
        self._at = offset
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        self._fd = os.open(self._path, flags, 0o600)
        if os.fstat(self._fd).st_size < offset:
            os.close(self._fd)
            raise Refused("data.cut", "what was here of %s is gone; the identical command sends it again" % name[:12])
        self._sha = _hash_open(self._fd, offset)

    def write(self, chunk: bytes) -> None:
        """Write bytes at their offset."""
        view, at = memoryview(chunk), self._at
        while view:
            done = os.pwrite(self._fd, view, at)
            view, at = view[done:], at + done
        self._sha.update(chunk)
        self._at = at
        self.missing -= len(chunk)

    def finish(self) -> None:
        """Give the file its name when its bytes have the hash."""
        try:
            if self._sha.hexdigest() != self.name:
                with contextlib.suppress(OSError):
                    os.unlink(self._path)
                text = "a file of the data arrived different from its hash (%s); did it change while it was sent?"
                raise Refused("data.differs", text % self.name[:12])
            if self._size >= _SYNC_BYTES:
                os.fsync(self._fd)
            os.fchmod(self._fd, 0o444)
        finally:
            self.leave()
        target = self._inputs.blob(self.name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # another connection was quicker
            os.rename(self._path, target)
        if self._size >= _SYNC_BYTES:
            check_off(target)

    def leave(self) -> None:
        """Stop here; keep what came."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def settle(inputs: Inputs, names: Iterable[str]) -> None:
    """Vouch for small files that came: once for all of them, since a sync of each would take long."""
    names = list(names)
    if names:
        os.sync()
    for name in names:
        with contextlib.suppress(OSError):
            check_off(inputs.blob(name))


def is_small(size: int) -> bool:
    """Return whether a file is vouched for together with others."""
    return size < _SYNC_BYTES


def check_off(path: str) -> None:
    """Mark a file as read in full and right."""
    os.utime(path, ns=(CHECKED_NS, CHECKED_NS))


def hash_of(path: str, size: int) -> Any:
    """Hash the first bytes of a file."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return _hash_open(fd, size)
    finally:
        os.close(fd)


def _hash_open(fd: int, size: int) -> Any:
    import hashlib

    sha, at = hashlib.sha256(), 0
    while at < size:
        block = os.pread(fd, min(_READ_BYTES, size - at), at)
        if not block:
            break
        sha.update(block)
        at += len(block)
    return sha


def keep_listing(inputs: Inputs, tree: str, entries_text: bytes, ending: str) -> None:
    """Write the list of a tree's files beside its folder; a complete one replaces the one before."""
    write_atomic(inputs.listing(tree, ending), zlib.compress(entries_text, 1))
    if ending == LIST:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(inputs.listing(tree, COMING))


def read_listing(inputs: Inputs, tree: str, ending: str = LIST) -> Optional[bytes]:
    """Read the text of a tree's list, or None where there is none."""
    try:
        with open(inputs.listing(tree, ending), "rb") as file:
            return zlib.decompress(file.read())
    except (FileNotFoundError, zlib.error):
        return None


def _links(folder: str) -> bool:
    """Return whether a file can have a second name here; some network and FUSE disks have no hard links."""
    probe = os.path.join(folder, ".probe-%d" % os.getpid())
    try:
        write_atomic(probe, b"", durable=False)
        os.link(probe, probe + ".2")
        return True
    except OSError:
        return False
    finally:
        for path in (probe, probe + ".2"):
            with contextlib.suppress(OSError):
                os.unlink(path)


def _put_link(blob: str, path: str) -> None:
    """Give a file its name in a view: a hard link to the blob where the disk has them, else a symlink."""
    temp = "%s.%d.tmp" % (path[:-40] if len(os.path.basename(path)) > 200 else path, os.getpid())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temp)
    try:
        os.link(blob, temp)
    except OSError:
        os.symlink(blob, temp)
    os.replace(temp, path)


def _is_same(path: str, blob: str) -> bool:
    try:
        return os.path.samefile(path, blob)
    except OSError:
        return False


def _open_folders(view: str, folder: str, opened: Set[str]) -> None:
    """Make the folders on the way from a view to one below it, and make them writable for us for a moment."""
    if folder in opened:
        return
    if folder != view:
        _open_folders(view, os.path.dirname(folder), opened)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
    os.chmod(folder, 0o755)
    opened.add(folder)


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
