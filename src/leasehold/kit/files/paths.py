"""Names and relative paths that cannot escape, checked on both ends."""

from __future__ import annotations

import os
import re
import stat
from typing import Tuple

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,99})\Z")
# The form of nearly every path: plain words, none starting with a dot, and short enough for every rule.
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}(?:/[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}){0,19}\Z")
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # a pipe in a file's place must not block us
_MAX_PATH_BYTES = 4000
_MAX_SEGMENT_BYTES = 255


class UnsafePath(ValueError):
    """A name or path that may not be used; str() gives the reason."""


def check_name(name: object, what: str = "name") -> str:
    """Return name if it is a plain word of letters, digits, dot, dash and underscore."""
    if not isinstance(name, str) or not NAME.match(name) or name.endswith("."):
        raise UnsafePath(
            "%s %r: use letters, digits, '.', '_' and '-', at most 100, starting with a letter or digit" % (what, name)
        )
    return name


def check_relative(path: object) -> str:
    """Return path if it is relative, stays below its root and can be named on both ends."""
    if isinstance(path, str) and _PLAIN.match(path):
        return path
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
    with OpenedBelow(root) as folder:
        return folder.open(path)[0]


class OpenedBelow:
    """Opens regular files below a root, following no symlink; consecutive files of one folder cost one open each."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._folder = ""
        self._fd = -1

    def __enter__(self) -> "OpenedBelow":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, path: str) -> Tuple[int, os.stat_result]:
        """Open a file for reading; return it with its fstat result."""
        opened = self.open_unseen(path)
        info = os.fstat(opened)
        if not stat.S_ISREG(info.st_mode):
            os.close(opened)
            raise UnsafePath("path %r: not a regular file" % path)
        return opened, info

    def open_unseen(self, path: str) -> int:
        """Open a file without blocking or checking its type; the caller must check that it is a regular file."""
        folder, _, name = check_relative(path).rpartition("/")
        if self._fd < 0 or folder != self._folder:
            self._enter(folder)
        return os.open(name, os.O_RDONLY | _NOFOLLOW | _NONBLOCK, dir_fd=self._fd)

    def close(self) -> None:
        """Close the folder. A second call does nothing; a later open reopens it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _enter(self, folder: str) -> None:
        self.close()
        self._fd, self._folder = os.open(self._root, os.O_RDONLY), folder
        for segment in folder.split("/") if folder else ():
            inner = os.open(segment, os.O_RDONLY | os.O_DIRECTORY | _NOFOLLOW, dir_fd=self._fd)
            os.close(self._fd)
            self._fd = inner


def _check_segment(segment: str, path: str) -> None:
    if segment in ("", ".", ".."):
        raise UnsafePath("path %r: segment %r is not allowed" % (path, segment))
    if len(segment.encode("utf-8")) > _MAX_SEGMENT_BYTES:
        raise UnsafePath("path %r...: a segment is longer than %d bytes" % (path[:60], _MAX_SEGMENT_BYTES))
    if os.sep == "\\" and re.search(r'[\\:*?"<>|\x00-\x1f]', segment):
        raise UnsafePath("path %r: Windows cannot hold this name" % path)
