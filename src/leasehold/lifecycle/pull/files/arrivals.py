"""The arrived ranges of each file: an append-only log beside the files, so that a kill costs at most a block."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from leasehold.kit.files.atomic import write_all, write_atomic

from .spans import Spans

NAME = "arrived.jsonl"


class Arrivals:
    """The log of one pull. A torn last line is ignored; what is not logged is fetched again."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._lock = threading.Lock()
        self._older = not self._path.exists()  # what lies here was pulled by a version that kept no log
        self._spans = _read(self._path)
        lines = [_line(key, *span) for key, spans in self._spans.items() for span in spans]
        write_atomic(str(self._path), b"".join(lines), durable=False)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND)

    def of(self, key: str, target: str, size: int) -> Spans:
        """Return the ranges of a file that are here. Without a log they are a prefix, as older versions left it."""
        try:
            present = min(os.lstat(target).st_size, size)
        except OSError:
            return Spans()
        here = Spans()
        for start, end in [(0, present)] if self._older else self._spans.get(key, ()):
            here.add(start, min(end, present))
        return here

    def note(self, key: str, start: int, end: int) -> None:
        """Log a range that is in its file."""
        self.note_many([(key, start, end)])

    def note_many(self, ranges: list[tuple[str, int, int]]) -> None:
        """Log several ranges at once."""
        with self._lock:
            if self._fd >= 0:
                write_all(self._fd, b"".join(_line(*one) for one in ranges))

    def close(self) -> None:
        """Close the log; later entries are lost. A second call does nothing."""
        with self._lock:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)


def _line(key: str, start: int, end: int) -> bytes:
    return b"[%s, %d, %d]\n" % (json.dumps(key).encode(), start, end)


def _read(path: Path) -> dict[str, Spans]:
    found: dict[str, Spans] = {}
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return found
    for line in lines[:-1]:
        try:
            key, start, end = json.loads(line)
            found.setdefault(str(key), Spans()).add(int(start), int(end))
        except (ValueError, TypeError):
            continue
    return found
