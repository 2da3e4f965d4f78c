"""Disk space reserved for the last records: a few small files, made early, given up one by one when the disk is full.

Several instead of one, because the process that filled the disk may still be writing and takes what is freed. Each
gives back bytes and an inode, so that both kinds of full disk leave room for journal, exit record and status.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Any, Callable, Dict

from leasehold.kit.files.atomic import spell_json, write_all, write_json

from .run_folder import RunFolder
from .view_folders import expire

FILES = 8
FILE_BYTES = 128 << 10
_ROOMY_BYTES = 16 * FILES * FILE_BYTES
_FULL = (errno.ENOSPC, errno.EDQUOT)


def keep(folder: RunFolder) -> int:
    """Make the missing files of the reserve; return how many it has. A full disk makes none."""
    made = 0
    expire(folder)  # links of pulls that were given up hold what the trainer has deleted
    with contextlib.suppress(OSError):
        os.makedirs(folder.reserve, exist_ok=True)
        disk = os.statvfs(folder.reserve)
        if disk.f_bavail * disk.f_frsize < _ROOMY_BYTES:  # what was given up is not taken back from a full disk
            return 0
        for number in range(FILES):
            make(os.path.join(folder.reserve, "%d" % number), FILE_BYTES)
            made += 1
    return made


def release(folder: RunFolder) -> bool:
    """Give up one file of the reserve; return whether there was one."""
    for number in range(FILES):
        try:
            os.unlink(os.path.join(folder.reserve, "%d" % number))
        except OSError:
            continue
        return True
    return False


def drop(folder: RunFolder) -> None:
    """Give all of it up: the run has written its last record."""
    if not os.path.isdir(folder.reserve):
        return
    while release(folder):
        pass
    with contextlib.suppress(OSError):
        os.rmdir(folder.reserve)


def with_room(folder: RunFolder, act: Callable[[], None]) -> None:
    """Do it; where the disk is full, give up the reserve piece by piece until it succeeds."""
    for _ in range(FILES + 1):
        try:
            act()
            return
        except OSError as error:
            if error.errno not in _FULL or not release(folder):
                raise


def write_status(folder: RunFolder, value: Dict[str, Any], last: bool) -> None:
    """Replace the status. The last one overwrites the old one in place where a trainer filled the disk before us.

    That takes no inode and mostly no block; a concurrent reader may see a half-written file.
    """
    try:
        with_room(folder, lambda: write_json(folder.status, value, durable=False))
    except OSError:
        if not last:
            raise
        fd = os.open(folder.status, os.O_WRONLY | os.O_NOFOLLOW)
        try:
            data = spell_json(value)
            write_all(fd, data)
            os.ftruncate(fd, len(data))
        finally:
            os.close(fd)


def make(path: str, size: int) -> None:
    """Write real bytes: a hole reserves nothing, and not every filesystem can preallocate."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    try:
        write_all(fd, os.urandom(size))  # random: some filesystems compress what repeats
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(fd)
