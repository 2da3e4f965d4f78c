"""Blocks that came a moment ago and are still in memory: gathered whole, written at one go, hashed without reading."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Sequence

from leasehold.kit.wire.frames import BLOCK_BYTES

from .incoming_file import Part

_MOST_BYTES = 128 << 20
_PATIENCE_S = 0.2  # for the hasher to make room; what it does not get so it reads from the disk later


class Fresh:
    """What the hasher may take instead of reading, bounded. Any thread may offer; the hasher takes."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._room = threading.Condition()
        self._blocks: dict[tuple[int, int], Sequence[Part]] = {}
        self._bytes = 0

    def offer(self, number: int, start: int, parts: Sequence[Part]) -> None:
        """Keep a block of a file. Where memory is full, what is hashed last is not kept; it is waited for a moment."""
        size = sum(len(part) for part in parts)
        with self._room:
            self._drop(number, start)
            while self._bytes + size > self._most_bytes:
                last = max(self._blocks, default=(number, start))
                if last > (number, start):
                    self._drop(*last)
                elif not self._room.wait_for(lambda: self._bytes + size <= self._most_bytes, _PATIENCE_S):
                    return
            self._blocks[number, start] = parts
            self._bytes += size

    def take(self, number: int, start: int) -> Sequence[Part] | None:
        """Hand out a block once, if it is here."""
        with self._room:
            return self._drop(number, start)

    def forget(self, number: int) -> None:
        """Drop what is here of a file: its bytes are to come again."""
        with self._room:
            for key in [key for key in self._blocks if key[0] == number]:
                self._drop(*key)

    def _drop(self, number: int, start: int) -> Sequence[Part] | None:
        parts = self._blocks.pop((number, start), None)
        if parts is not None:
            self._bytes -= sum(len(part) for part in parts)
            self._room.notify_all()
        return parts


class Gathering:
    """One block on its way, in memory that a disk can read directly. Used by one thread."""

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, BLOCK_BYTES))
        self.parts: list[Part] = []
        self.size = 0

    @property
    def whole(self) -> bool:
        """Whether the block is here."""
        return self.size == BLOCK_BYTES

    @property
    def block(self) -> memoryview:
        """What is here of it."""
        return self._memory[: self.size]

    def add(self, part: memoryview) -> None:
        """Take bytes, no more than are missing."""
        self._memory[self.size : self.size + len(part)] = part
        self.size += len(part)
        self.parts.append(part)

    def clear(self) -> list[Part]:
        """Begin anew; return the parts that were here."""
        parts, self.parts, self.size = self.parts, [], 0
        return parts
