"""Keep secrets out of what this box stores and sends: logs are overwritten in place, events are cleaned first.

The trainer writes its log itself, so that it outlives us; secrets in it are overwritten within seconds, and before
its end is reported. Lengths stay, so it may go on writing and offsets stay valid.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Dict, Iterable, Tuple

from leasehold.kit.files.atomic import read_json
from leasehold.kit.text.redact import CONTEXT_BYTES, Redactor

from .run_folder import RunFolder

_EVERY_S = 2.0
_PIECE_BYTES = 256 << 10
_PIECES_A_TURN = 16


def redactor_of(folder: RunFolder) -> Redactor:
    """Build a redactor of the run's secrets and notice addresses, while they are stored here; token patterns always."""
    return Redactor(_values(folder))


def read_log(path: str, offset: int, length: int, redactor: Redactor) -> bytes:
    """Read a range of a growing log without secrets; nothing when it is not there."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        return read_clean(fd, offset, length, redactor)
    finally:
        os.close(fd)


def read_clean(fd: int, offset: int, length: int, redactor: Redactor) -> bytes:
    """Read a range without secrets, including one that crosses its edge."""
    start = max(0, offset - CONTEXT_BYTES)
    before = offset - start
    return redactor.clean(os.pread(fd, before + length + CONTEXT_BYTES, start))[before : before + length]


def whole_words(data: bytes) -> bytes:
    """Drop a last word that may still be growing, unless it is longer than any secret."""
    cut = max(data.rfind(mark) for mark in (b" ", b"\n", b"\r", b"\t")) + 1
    return data if len(data) - cut > CONTEXT_BYTES else data[:cut]


class Scrubber:
    """Cleans the files of a caretaker; remembers how far each file is clean."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._values: Dict[str, str] = {}
        self._redactor = Redactor()
        self._clean_to: Dict[str, int] = {}
        self._seen_bytes: Dict[str, int] = {}
        self._due = 0.0

    def tree(self, value: Any) -> Any:
        """Clean what will be journaled."""
        self._learn()
        return self._redactor.tree(value)

    def turn(self, attempts: Iterable[Tuple[str, int]]) -> None:
        """Overwrite secrets in the logs of these attempts, every few seconds."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _EVERY_S
        for cell, attempt in attempts:
            if attempt:
                with contextlib.suppress(OSError):  # a full or frozen disk must not end the watch over a trainer
                    self._scrub(self._log(cell, attempt), last=False)

    def finish(self, cell: str, attempt: int) -> None:
        """Clean the attempt's log to its end, once nobody writes any more."""
        with contextlib.suppress(OSError):
            self._scrub(self._log(cell, attempt), last=True)

    def finish_downloads(self) -> None:
        """Clean the downloads' log."""
        with contextlib.suppress(OSError):
            self._scrub(self._folder.downloads_log, last=True)

    def _log(self, cell: str, attempt: int) -> str:
        return os.path.join(self._folder.attempt(cell, attempt), "log")

    def _learn(self) -> None:
        """Load new values; known ones stay known, since a resume may bring others."""
        values = {**self._values, **_values(self._folder)}
        if values != self._values:
            self._values, self._redactor = values, Redactor(values)
            self._clean_to.clear()
            self._seen_bytes.clear()

    def _scrub(self, path: str, last: bool) -> None:
        self._learn()
        size = os.stat(path).st_size if os.path.exists(path) else 0
        if size == self._seen_bytes.get(path, 0) and not last:
            return
        at = min(self._clean_to.get(path, 0), size)
        pieces = 0
        while at < size and (last or pieces < _PIECES_A_TURN):
            pieces += 1
            self._scrub_piece(path, at)
            at = min(size, at + _PIECE_BYTES)
        if at >= size:
            self._seen_bytes[path] = size
        self._clean_to[path] = max(0, at - CONTEXT_BYTES)  # a secret may begin at the end of what is there

    def _scrub_piece(self, path: str, at: int) -> None:
        start = max(0, at - CONTEXT_BYTES)
        with open(path, "rb") as file:
            file.seek(start)
            data = file.read(at - start + _PIECE_BYTES + CONTEXT_BYTES)
        spans = self._redactor.spans(data)
        if not spans:
            return
        fd = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            for span in spans:
                hidden = data[span.start : span.start + len(span.mask)]
                if os.pread(fd, len(hidden), start + span.start) == hidden:  # leave a file that was cut meanwhile
                    os.pwrite(fd, span.mask, start + span.start)
            os.fsync(fd)
        finally:
            os.close(fd)


def _values(folder: RunFolder) -> Dict[str, str]:
    secrets = read_json(folder.secrets) or {}
    channels = (read_json(folder.notify) or {}).get("channels") or []
    addresses = {"address %d" % number: str(one.get("url", "")) for number, one in enumerate(channels, 1)}
    return {**addresses, **{str(name): str(value) for name, value in secrets.items()}}
