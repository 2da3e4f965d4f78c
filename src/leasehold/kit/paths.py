"""Names and relative paths that cannot escape, checked on both ends."""

from __future__ import annotations

import os
import re
import stat

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,99})\Z")
_MAX_PATH_BYTES = 4000
_MAX_SEGMENT_BYTES = 255


class UnsafePath(ValueError):
    """A name or path that may not be used; str() says why."""


def check_name(name: object, what: str = "name") -> str:
    """Return name if it is a plain word of letters, digits, dot, dash and underscore."""
    if not isinstance(name, str) or not NAME.match(name) or name.endswith("."):
        raise UnsafePath(
            "%s %r: use letters, digits, '.', '_' and '-', at most 100, starting with a letter or digit" % (what, name)
        )
    return name


def check_relative(path: object) -> str:
    """Return path if it is relative, stays below its root and can be named on both ends."""
    if not isinstance(path, str) or not path:
        raise UnsafePath("path %r: empty or not text" % (path,))
    if path.startswith("/"):
        raise UnsafePath("path %r: absolute" % path)
    if "\0" in path:
        raise UnsafePath("path %r: holds a NUL" % path)
    try:
        raw = path.encode("utf-8")
    except UnicodeEncodeError:
        raise UnsafePath("path %r: not valid UTF-8" % path) from None
    if len(raw) > _MAX_PATH_BYTES:
        raise UnsafePath("path %r...: longer than %d bytes" % (path[:60], _MAX_PATH_BYTES))
    for segment in path.split("/"):
        _check_segment(segment, path)
    return path


def join_checked(root: str, path: str) -> str:
    """Join a checked relative path below root."""
    return os.path.join(root, *check_relative(path).split("/"))


def open_below(root: str, path: str) -> int:
    """Open a regular file below root for reading, following no symlink on the way."""
    nofollow = getattr(os, "O_NOFOLLOW", 0)
    segments = check_relative(path).split("/")
    fd = os.open(root, os.O_RDONLY)
    try:
        for segment in segments[:-1]:
            inner = os.open(segment, os.O_RDONLY | os.O_DIRECTORY | nofollow, dir_fd=fd)
            os.close(fd)
            fd = inner
        opened = os.open(segments[-1], os.O_RDONLY | nofollow | getattr(os, "O_NONBLOCK", 0), dir_fd=fd)
    finally:
        os.close(fd)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise UnsafePath("path %r: not a regular file" % path)
    return opened


def _check_segment(segment: str, path: str) -> None:
    if segment in ("", ".", ".."):
        raise UnsafePath("path %r: segment %r is not allowed" % (path, segment))
    if len(segment.encode("utf-8")) > _MAX_SEGMENT_BYTES:
        raise UnsafePath("path %r...: a segment is longer than %d bytes" % (path[:60], _MAX_SEGMENT_BYTES))
    if os.sep == "\\" and re.search(r'[\\:*?"<>|\x00-\x1f]', segment):
        raise UnsafePath("path %r: Windows cannot hold this name" % path)
