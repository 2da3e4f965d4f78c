"""From an errno to what a place reports: one sentence and a kind that decides the remedy."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Iterator

from leasehold.kit.files.paths import UnsafePath

from .place import FULL, READ_ONLY, REFUSED, UNREACHABLE, Absent, PlaceError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = {
    errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EINVAL, errno.EISDIR, errno.ENOTDIR, errno.ELOOP,
    errno.EFBIG, errno.EEXIST, errno.ENXIO,
}  # fmt: skip


@contextlib.contextmanager
def placed(where: str, key: str = "") -> Iterator[None]:
    """Turn errors of the file system in this block into PlaceError."""
    try:
        yield
    except UnsafePath as error:
        raise PlaceError(REFUSED, "%s: %s" % (where, error)) from None
    except OSError as error:
        raise _named(where, key, error) from error


def _named(where: str, key: str, error: OSError) -> PlaceError:
    what = error.strerror or str(error)
    if error.errno in _FULL:
        return PlaceError(FULL, "%s has no space left%s" % (where, _left(where)))
    if error.errno == errno.EROFS:
        return PlaceError(READ_ONLY, "%s is read-only" % where)
    if error.errno == errno.ENOENT:
        if not os.path.isdir(where):
            return PlaceError(UNREACHABLE, "%s is not there; is it attached?" % where)
        return Absent("%s is not in %s" % (key, where))
    if error.errno in _REFUSED:
        return PlaceError(REFUSED, "%s refuses %s: %s" % (where, key or "to be read", what))
    return PlaceError(UNREACHABLE, "%s does not answer: %s" % (where, what))


def _left(where: str) -> str:
    try:
        disk = os.statvfs(where)
    except (OSError, AttributeError):
        return ""
    inodes = ", %d inodes" % disk.f_favail if disk.f_files else ""
    return " (%d MB%s free)" % ((disk.f_bavail * disk.f_frsize) >> 20, inodes)
