"""Read ranges of a run's artifacts in the order home asks for them; read small files ahead on a slow mount."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from itertools import chain, takewhile
from typing import Any, Iterator, List, NamedTuple, Sequence, Tuple, Union

from leasehold.caretaker.process.parallel import ahead
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.wire.connection import Refused
from leasehold.kit.files import manifest
from leasehold.kit.files.paths import OpenedBelow, UnsafePath

from .stable_view import StableView

_SLOW_S = 0.002  # for a small file; a local disk takes a twentieth of it
_SURE_AFTER = 8  # files


class Asked(NamedTuple):
    """A range, or a small file as a whole followed by its sum."""

    cell: str
    path: str
    start: int
    length: int
    mtime_ns: int
    sealed: bool

    @property
    def name(self) -> str:
        """Name for messages."""
        return "%s/%s" % (self.cell, self.path)


class Span(NamedTuple):
    """A range of an open file that is sent without reading it."""

    fd: int
    offset: int
    length: int
    name: str


class Artifacts:
    """Opens a run's artifacts; keeps the last folder open."""

    def __init__(self, folder: RunFolder, view: str = "") -> None:
        self._folder = folder
        self._view = StableView(folder, view) if view else None
        self._cell = ""
        self._below = OpenedBelow("")
        self._small = 0
        self._small_s = 0.0

    @property
    def slow(self) -> bool:
        """Return whether small files take so long that reading several at once pays."""
        return self._small >= _SURE_AFTER and self._small_s > _SLOW_S * self._small

    def open(self, cell: str, path: str) -> Tuple[int, os.stat_result]:
        """Open one for reading."""
        try:
            return self._below_of(cell).open(path)
        except (OSError, UnsafePath) as error:
            raise _unreadable(path, error) from None

    def _below_of(self, cell: str) -> OpenedBelow:
        if cell != self._cell:
            self.close()
            self._cell, self._below = cell, self._reader(cell)
        return self._below

    def _reader(self, cell: str) -> OpenedBelow:
        out = self._folder.out(cell)
        return _Viewed(self._view.root(cell), out) if self._view is not None else OpenedBelow(out)

    def close(self) -> None:
        """Close the folder."""
        self._below.close()

    def small(self, asked: Asked) -> List[bytes]:
        """Read and hash a small file; how long that takes decides how the next ones are read."""
        begun = time.monotonic()
        try:
            return _with_sum(self._below_of(asked.cell), asked)
        finally:
            self._small += 1
            self._small_s += time.monotonic() - begun

    def small_alone(self, asked: Asked) -> List[bytes]:
        """Read and hash a small file from any thread: nothing is shared with another file."""
        with self._reader(asked.cell) as below:
            return _with_sum(below, asked)


class _Viewed(OpenedBelow):
    """Opens files of a stable view; those that are not in it, below the trainer's own folder."""

    def __init__(self, view: str, out: str) -> None:
        super().__init__(out)
        self._viewed = OpenedBelow(view)

    def open_unseen(self, path: str) -> int:
        """Open a file without blocking or checking its type."""
        try:
            return self._viewed.open_unseen(path)
        except FileNotFoundError:
            return super().open_unseen(path)

    def close(self) -> None:
        """Close both folders."""
        self._viewed.close()
        super().close()


def ranges(opened: Artifacts, items: Sequence[Any], size: int, look: bool) -> Iterator[Union[bytes, Span]]:
    """Yield the requested ranges in blocks; large ranges as spans, unless the caller needs the bytes."""
    asked = [_parse(item) for item in items]
    at = 0
    while at < len(asked):
        if not asked[at].sealed:
            yield from _range(opened, asked[at], size, look)
        elif opened.slow:
            several = list(takewhile(lambda one: one.sealed, asked[at:]))
            yield from chain.from_iterable(ahead(opened.small_alone, several))
            at += len(several) - 1
        else:
            yield from opened.small(asked[at])
        at += 1


def filled(blocks: Iterator[Union[bytes, Span]], size: int) -> Iterator[Union[List[bytes], Span]]:
    """Join small blocks until they fill a frame."""
    held: List[bytes] = []
    held_bytes = 0
    for block in blocks:
        if isinstance(block, Span):
            if held:
                yield held
                held, held_bytes = [], 0
            yield block
            continue
        held.append(block)
        held_bytes += len(block)
        if held_bytes >= size:
            yield held
            held, held_bytes = [], 0
    if held:
        yield held


def _parse(item: Any) -> Asked:
    try:
        cell, path, offset, length, mtime_ns = item[:5]
        return Asked(str(cell), str(path), int(offset), int(length), int(mtime_ns), len(item) > 5 and bool(item[5]))
    except (TypeError, ValueError):
        raise Refused("wire.bad_request", "a range is [cell, path, offset, length, mtime_ns]") from None


def _unreadable(path: str, why: object) -> Refused:
    return Refused("artifact.unreadable", "%s: %s" % (path, why))


def _range(opened: Artifacts, asked: Asked, size: int, look: bool) -> Iterator[Union[bytes, Span]]:
    fd, info = opened.open(asked.cell, asked.path)
    try:
        _check_unchanged(info, asked)
        if look or asked.length < size:
            yield from _read(fd, asked, size)
            return
        for done in range(0, asked.length, size):
            yield Span(fd, asked.start + done, min(size, asked.length - done), asked.name)
    finally:
        os.close(fd)


def _read(fd: int, asked: Asked, size: int) -> Iterator[bytes]:
    missing = asked.length
    os.lseek(fd, asked.start, os.SEEK_SET)
    while missing > 0:
        block = os.read(fd, min(size, missing))
        if not block:
            raise Refused("artifact.changed", "%s became shorter on the box" % asked.name)
        missing -= len(block)
        yield block


def _with_sum(below: OpenedBelow, asked: Asked) -> List[bytes]:
    """Read a small file as a whole; hash exactly what is sent, and only a file that is as it was listed."""
    if asked.length > manifest.TINY_BYTES:
        raise Refused("wire.bad_request", "%s is too large to be sent with its sum" % asked.name)
    try:
        fd = below.open_unseen(asked.path)
        try:
            content = os.read(fd, asked.length + 1)
            info = os.fstat(fd)
        finally:
            os.close(fd)
    except (OSError, UnsafePath) as error:
        raise _unreadable(asked.path, error) from None
    if not stat.S_ISREG(info.st_mode):
        raise _unreadable(asked.path, "not a regular file")
    _check_unchanged(info, asked)
    if len(content) != asked.length or info.st_size != asked.length:
        raise Refused("artifact.changed", "%s changed on the box while it was sent" % asked.name)
    return [content, hashlib.sha256(content).digest()]


def _check_unchanged(info: os.stat_result, asked: Asked) -> None:
    if info.st_mtime_ns != asked.mtime_ns:
        raise Refused("artifact.changed", "%s changed on the box since it was listed" % asked.name)
