"""An append-only file of JSON lines whose every prefix is readable.

One writer at a time (the caller holds a lock). A line counts once its newline is on disk; a torn tail is
left by a kill, and the next writer cuts it off. An unreadable line before readable ones
(a failing disk, an editor) is skipped by every reader, and nothing after it is ever cut off.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from leasehold.kit.testing.kill_points import pause_at

from .atomic import write_all

Event = Dict[str, Any]


class Journal:
    """The writing end; opening it removes a torn tail."""

    def __init__(self, path: str, follow: FrozenSet[str] = frozenset()) -> None:
        """Open it; events of the kinds in `follow` become durable with the next event that is, or at the end."""
        self.path = path
        self._follow = follow
        self._behind = False
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o644)
        events, good_bytes = read_from(path, 0)
        if os.fstat(self._fd).st_size != good_bytes:
            os.ftruncate(self._fd, good_bytes)
        self.events = events
        self._next = events[-1]["n"] + 1 if events else 1

    def append(self, kind: str, **data: Any) -> Event:
        """Write one event and make it durable before returning, unless its kind is in `follow`."""
        event: Event = {"n": self._next, "t": round(time.time(), 3), "k": kind}
        event.update(data)
        line = _line(event)
        pause_at(kind, "before")
        start = os.fstat(self._fd).st_size
        try:
            self._write(kind, line)
        except OSError:  # a full disk: half a line must not glue to the next event
            os.ftruncate(self._fd, start)
            raise
        self._next += 1
        self.events.append(event)
        pause_at(kind, "after")
        return event

    def extend(self, items: Iterable[Event]) -> List[Event]:
        """Write several events {k, …} and make them durable together; a later read returns a prefix of them or all."""
        events: List[Event] = []
        for item in items:
            head: Event = {"n": self._next + len(events), "t": round(time.time(), 3), "k": item["k"]}
            head.update((key, value) for key, value in item.items() if key not in head)
            events.append(head)
        if not events:
            return events
        start = os.fstat(self._fd).st_size
        try:
            write_all(self._fd, b"".join(_line(event) for event in events))
            os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, start)
            raise
        self._next += len(events)
        self.events.extend(events)
        return events

    @property
    def size_bytes(self) -> int:
        """Return the length of the file: the offset of the next event."""
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        """Close the file; events stay readable."""
        if self._behind:
            os.fsync(self._fd)
        os.close(self._fd)

    def _write(self, kind: str, line: bytes) -> None:
        if os.environ.get("LEASEHOLD_PAUSE"):  # a rehearsal may kill between two halves of a line
            half = len(line) // 2
            write_all(self._fd, line[:half])
            pause_at(kind, "during")
            line = line[half:]
        write_all(self._fd, line)
        self._behind = kind in self._follow
        if not self._behind:
            os.fsync(self._fd)


def _line(event: Event) -> bytes:
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode("utf-8") + b"\n"


class Scan(NamedTuple):
    """A journal's events, the end of the last whole one, and the earlier lines that cannot be read."""

    events: List[Event]
    offset: int
    bad_lines: List[int]


def read_from(path: str, offset: int, limit_bytes: int = -1) -> Tuple[List[Event], int]:
    """Return whole events from a byte offset on, at least one however long, and the offset after the last of them.

    An unreadable line is skipped if an event follows it; a last line may be half written yet.
    """
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read(limit_bytes)
            data += b"" if data.endswith(b"\n") else file.readline()
            found = _parsed(data, offset)
            if not found.events and data:  # only unreadable lines within the bytes examined
                found = _parsed(data + file.read(), offset)
    except FileNotFoundError:
        return [], 0
    return found.events, found.offset


def scan(path: str) -> Scan:
    """Read a journal from its beginning, and report which lines cannot be read."""
    try:
        with open(path, "rb") as file:
            return _parsed(file.read(), 0)
    except FileNotFoundError:
        return Scan([], 0, [])


def _parsed(data: bytes, offset: int) -> Scan:
    found = Scan([], offset, [])
    events, end, bad, doubtful = found.events, offset, found.bad_lines, []
    at = offset
    for number, line in enumerate(_whole_lines(data), 1):
        at += len(line)
        event = _event(line)
        if event is None:
            doubtful.append(number)
            continue
        events.append(event)
        bad += doubtful
        doubtful = []
        end = at
    return Scan(events, end, bad)


def _event(line: bytes) -> Optional[Event]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):  # torn, or a torn line that a later write turned into invalid JSON
        return None
    return event if isinstance(event, dict) and isinstance(event.get("n"), int) else None


def _whole_lines(data: bytes) -> Iterator[bytes]:
    for line in data.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            return
        yield line
