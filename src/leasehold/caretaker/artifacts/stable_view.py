"""A stable view of files that a trainer goes on writing: hard links of what it replaces, copies of what it rewrites.

A file that is replaced by a rename is complete, and its link keeps these bytes whatever the trainer does next. A file
that is rewritten in place is copied, and the copy counts only if the file was the same before and after. Whatever stays
in doubt when the time is up is left out, with the reason.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

from leasehold.caretaker.process.locks import wait_lock
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.view_folders import expire, remove, views_of
from leasehold.kit.files.globbing import Found
from leasehold.kit.files.newest_checkpoint import UNKNOWN, why_unended
from leasehold.kit.files.paths import check_name, open_below
from leasehold.kit.files.sha256 import blocks, hash_blocks

SETTLE_S = 5.0  # how long files in doubt are waited for, all together
_SURE_S = 0.3  # an unchanged file whose format states its end needs no longer proof
_POLL_S = 0.02
_SHORT_S = 0.001
_COPY_S = 0.25  # tries of one file before the others have their turn
_TICK_S = 0.004  # of the clock that stamps files
_MOST_COPIED = 1 << 30
_LOCK_S = 2.0  # for the end of a connection that was cut
_READ_TWICE = 8 << 20
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOSPC, errno.EDQUOT)

GONE = "it was removed meanwhile"
RESTLESS = "it is rewritten in place faster than it can be read"

Left = Tuple[str, str, str]  # cell, path, why


class _One:
    """A file on its way into the view."""

    def __init__(self, cell: str, path: str, info: os.stat_result) -> None:
        self.cell, self.path, self.info = cell, path, info
        self.pinned_at = time.monotonic()
        self.linked = False


class Taken(NamedTuple):
    """The files of a view as they are there, and those that were left out."""

    files: List[Tuple[str, Found]]
    left: List[Left]


class StableView:
    """A folder of links and copies beside a run's output, for as long as one pull needs it."""

    def __init__(self, folder: RunFolder, name: str, quiet_s: float = SETTLE_S) -> None:
        self.quiet_s = quiet_s
        self._folder = folder
        self._name = check_name(name, "view")
        self._path = os.path.join(views_of(folder), self._name)
        self._lock: Optional[int] = None

    def root(self, cell: str) -> str:
        """Return where the files of a cell lie in the view."""
        return os.path.join(self._path, check_name(cell, "cell"))

    def open(self) -> None:
        """Create the view, or continue one that a cut connection left; OSError while another connection has it."""
        expire(self._folder)
        os.makedirs(views_of(self._folder), mode=0o700, exist_ok=True)
        self._lock = wait_lock(self._path + ".lock", _LOCK_S)
        if self._lock is None:
            raise OSError(errno.EBUSY, "another connection has this view", self._path)
        os.makedirs(self._path, mode=0o700, exist_ok=True)
        os.utime(self._path)

    def close(self, keep: bool) -> None:
        """Remove the view, or keep it a while for the next connection."""
        if not keep:
            remove(self._path)
        if self._lock is not None:
            if not keep:
                with contextlib.suppress(OSError):
                    os.unlink(self._path + ".lock")
            os.close(self._lock)
            self._lock = None

    def take(self, files: Iterable[Tuple[str, Found]], quiet_s: float, copies: bool = True) -> Taken:
        """Pin these files; wait for those that were written a moment ago until each is proved whole, or left out."""
        room = self._room()
        done: List[_One] = []
        doubtful: List[_One] = []
        left: List[Left] = []
        for cell, found in sorted(files, key=lambda pair: -pair[1].info.st_mtime_ns):
            one = _One(cell, found.path, found.info)
            try:
                self._pin(one, room)
            except FileNotFoundError:
                left.append((cell, found.path, GONE))
                continue
            except OSError as error:
                left.append((cell, found.path, str(error)))
                continue
            room -= one.info.st_size if one.linked else 0
            quiet = time.time() - one.info.st_mtime >= quiet_s
            (done if quiet else doubtful).append(one)
        self._settle(doubtful, (done, left), quiet_s, room if copies else -1)
        return Taken([(one.cell, Found(one.path, one.info)) for one in done], left)

    def clear(self, cell: str) -> None:
        """Remove the files of a cell from the view."""
        remove(self.root(cell))

    def drop(self, cell: str, path: str) -> None:
        """Remove a file from the view."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.root(cell), path))

    def _room(self) -> int:
        """Return how many bytes may be pinned: a link keeps on the disk what the trainer believes it has deleted."""
        disk = os.statvfs(self._folder.path)
        return disk.f_bavail * disk.f_frsize // 2

    def _pin(self, one: _One, room: int) -> None:
        if one.info.st_size > room:
            return
        target = os.path.join(self.root(one.cell), one.path)
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(target)
            _link(os.path.join(self._folder.out(one.cell), one.path), target)
        except OSError as error:
            if error.errno in _NO_LINK:
                return
            raise
        one.linked, one.info = True, os.lstat(target)

    def _settle(self, doubtful: List[_One], into: Tuple[List[_One], List[Left]], quiet_s: float, room: int) -> None:
        done, left = into
        deadline = time.monotonic() + SETTLE_S
        why: Dict[int, str] = {}
        while doubtful:
            for one in list(doubtful):
                said = self._judge(one, quiet_s, room)
                if said is None:
                    done.append(one)
                elif said:
                    why[id(one)] = said
                if said is None or time.monotonic() > deadline:
                    doubtful.remove(one)
                    if said is not None:
                        self.drop(one.cell, one.path)
                        left.append((one.cell, one.path, said or why.get(id(one)) or "it was written a moment ago"))
            if doubtful:
                time.sleep(_POLL_S)

    def _judge(self, one: _One, quiet_s: float, room: int) -> Optional[str]:
        """Return None for a file that is proved whole, else why it is not yet; the reason may be empty."""
        source = os.path.join(self._folder.out(one.cell), one.path)
        where = os.path.join(self.root(one.cell), one.path) if one.linked else source
        try:
            now = os.lstat(where)
        except OSError:
            return GONE
        if not _same(now, one.info):
            return self._copy(one, room)
        age_s = time.monotonic() - one.pinned_at
        replaced = one.linked and not _is_at(source, now)
        if not (replaced or age_s >= min(_SURE_S, quiet_s)):
            return ""
        torn = _torn(where)
        if torn not in ("", UNKNOWN):
            return torn
        if not _same(os.lstat(where), one.info):
            return ""
        return None if replaced or torn == "" or age_s >= min(quiet_s, SETTLE_S * 0.9) else ""

    def _copy(self, one: _One, room: int) -> Optional[str]:
        """Copy a file that is rewritten in place, trying for a moment: it must be the same before and after."""
        until = time.monotonic() + _COPY_S
        while True:
            said = self._copied(one, room)
            if said != RESTLESS or time.monotonic() > until:
                return said
            time.sleep(_SHORT_S)

    def _copied(self, one: _One, room: int) -> Optional[str]:
        target = os.path.join(self.root(one.cell), one.path)
        try:
            fd = open_below(self._folder.out(one.cell), one.path)
        except OSError:
            return GONE
        try:
            before = os.fstat(fd)
            if not before.st_size or not _at_rest(before):
                return RESTLESS
            if before.st_size > min(room, _MOST_COPIED):
                return "it is rewritten in place, and the box has no room for a copy"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(target)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "xb") as file:
                read = hash_blocks(blocks(lambda count: os.read(fd, count)), each=file.write)
            if not _unchanged(fd, before, read):
                return RESTLESS
            os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
            torn = _torn(target)
            if torn not in ("", UNKNOWN):
                return torn
            one.info, one.linked = os.lstat(target), True
            return None
        except OSError as error:
            return str(error)
        finally:
            os.close(fd)


def _at_rest(info: os.stat_result) -> bool:
    """Return whether the last write is so long ago that another one must show in the file's time."""
    age_s = time.time() - info.st_mtime_ns / 1e9
    return age_s >= _TICK_S or age_s < -_TICK_S  # a disk whose clock is ahead: the second read decides


def _unchanged(fd: int, before: os.stat_result, read: Tuple[int, str]) -> bool:
    """Return whether the open file is still the one that was read; a small one is read once more."""
    if read[0] != before.st_size or not _same(os.fstat(fd), before):
        return False
    if before.st_size <= _READ_TWICE:
        os.lseek(fd, 0, os.SEEK_SET)
        if hash_blocks(blocks(lambda count: os.read(fd, count))) != read:
            return False
    return _same(os.fstat(fd), before)


def _torn(path: str) -> str:
    try:
        return why_unended(path)
    except OSError as error:
        return str(error)


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_size, one.st_mtime_ns, one.st_ino) == (other.st_size, other.st_mtime_ns, other.st_ino)


def _link(source: str, target: str) -> None:
    """Make a hard link and follow no symbolic one."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        os.link(source, target)  # PyPy sends a flag that Linux refuses; its plain link(2) follows none either


def _is_at(path: str, info: os.stat_result) -> bool:
    try:
        there = os.lstat(path)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (info.st_dev, info.st_ino)
