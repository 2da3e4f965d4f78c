"""Find the files that artifact patterns name, without following a symlink.

`*`, `?` and `[...]` stay inside one path segment; `**` spans any number of them.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Iterator, List, NamedTuple, Pattern, Sequence, Set

_MAX_FILES = 1_000_000


class Found(NamedTuple):
    """A directory entry below the root: its path, and what lstat said."""

    path: str
    info: os.stat_result

    @property
    def is_file(self) -> bool:
        """Return whether it is a regular file."""
        return stat.S_ISREG(self.info.st_mode)

    @property
    def is_link(self) -> bool:
        """Return whether it is a symlink."""
        return stat.S_ISLNK(self.info.st_mode)


def compile_pattern(pattern: str) -> Pattern[str]:
    """Turn a pattern into a regex over whole relative paths."""
    parts = []
    segments = pattern.split("/")
    for position, segment in enumerate(segments):
        last = position == len(segments) - 1
        if segment == "**":
            parts.append(".+" if last else "(?:[^/]+/)*")
            continue
        parts.append(_segment_regex(segment) + ("" if last else "/"))
    return re.compile("(?s)" + "".join(parts) + r"\Z")


def walk(root: str) -> Iterator[Found]:
    """Yield every non-folder below root, sorted within each folder, symlinks as themselves."""
    stack = [""]
    seen = 0
    while stack:
        folder = stack.pop()
        inner = []
        with os.scandir(os.path.join(root, folder) if folder else root) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            path = folder + "/" + entry.name if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                inner.append(path)
                continue
            seen += 1
            if seen > _MAX_FILES:
                raise OSError("more than %d files below %s" % (_MAX_FILES, root))
            yield Found(path, entry.stat(follow_symlinks=False))
        stack.extend(reversed(inner))


class Matches:
    """The files below a root that match any of some patterns; afterwards, the patterns that matched nothing."""

    def __init__(self, root: str, patterns: Sequence[str]) -> None:
        self._root = root
        self._patterns = list(patterns)
        self._hit: Set[int] = set()

    def __iter__(self) -> Iterator[Found]:
        regexes = [compile_pattern(pattern) for pattern in self._patterns]
        if not os.path.isdir(self._root):
            return
        for found in walk(self._root):
            hits = [index for index, regex in enumerate(regexes) if regex.match(found.path)]
            if hits:
                self._hit.update(hits)
                yield found

    @property
    def unmatched(self) -> List[str]:
        """Return the patterns that have matched nothing so far."""
        return [pattern for index, pattern in enumerate(self._patterns) if index not in self._hit]


def matching(root: str, patterns: Sequence[str]) -> List[List[Found]]:
    """Return, for each pattern, what it matches below root, sorted by path."""
    regexes = [compile_pattern(pattern) for pattern in patterns]
    hits: List[List[Found]] = [[] for _ in patterns]
    if not os.path.isdir(root):
        return hits
    for found in walk(root):
        for index, regex in enumerate(regexes):
            if regex.match(found.path):
                hits[index].append(found)
    return [sorted(hit) for hit in hits]


def _segment_regex(segment: str) -> str:
    out, position = [], 0
    while position < len(segment):
        char = segment[position]
        position += 1
        if char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and _class_end(segment, position) > 0:
            end = _class_end(segment, position)
            out.append(_class_regex(segment[position:end]))
            position = end + 1
        else:
            out.append(re.escape(char))
    return "".join(out)


def _class_end(segment: str, start: int) -> int:
    """Return the bracket that closes a class, -1 if none; the first character listed never closes it."""
    first = start + 1 if segment[start : start + 1] in ("!", "^") else start
    return segment.find("]", first + 1)


def _class_regex(body: str) -> str:
    negated = body[0] in "!^"
    listed, position, items = body[1:] if negated else body, 0, []
    while position < len(listed):
        low = high = listed[position]
        if listed[position + 1 : position + 2] == "-" and position + 2 < len(listed):
            high = listed[position + 2]
            position += 2
        position += 1
        if low <= high:  # a reversed range, such as [z-a], matches nothing
            items.append(re.escape(low) + "-" + re.escape(high))
    if not items:
        return "[^/]" if negated else "(?!)"
    return "(?!/)[%s%s]" % ("^" if negated else "", "".join(items))
