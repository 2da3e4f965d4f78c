"""Recently arrived blocks still in memory: gathered whole, written in one call, hashed without reading the disk."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Sequence

from leasehold.kit.wire.frames import BLOCK_BYTES

from .incoming_file import Part

_MOST_BYTES = 128 << 20
_PATIENCE_S = 0.2  # wait for the hasher to make room; what it then does not get it reads from the disk


class Fresh:
    """A bounded store of blocks that the hasher may take instead of reading. Any thread may offer; the hasher takes."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._room = threading.Condition()
        self._blocks: dict[tuple[int, int], Sequence[Part]] = {}
        self._bytes = 0

    def offer(self, number: int, start: int, parts: Sequence[Part]) -> None:
        """Keep a block of a file. If memory stays full for a moment, drop the block that would be hashed last."""
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
        """Drop the stored blocks of a file: its bytes will come again."""
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
    """One arriving block, in memory that direct I/O can use. Used by one thread."""

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, BLOCK_BYTES))
        self.parts: list[Part] = []
        self.size = 0

    @property
    def whole(self) -> bool:
        """Return whether the block is complete."""
        return self.size == BLOCK_BYTES

    @property
    def block(self) -> memoryview:
        """Return the bytes of the block that are here."""
        return self._memory[: self.size]

    def add(self, part: memoryview) -> None:
        """Add bytes, at most as many as are missing."""
        self._memory[self.size : self.size + len(part)] = part
        self.size += len(part)
        self.parts.append(part)

    def clear(self) -> list[Part]:
        """Start over; return the parts that were here."""
        parts, self.parts, self.size = self.parts, [], 0
        return parts
