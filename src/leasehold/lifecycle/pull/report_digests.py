"""Report arrived files' sums to the box while the rest is in transfer: over a slow link, one report would take long."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from leasehold.kit.wire.frames import NO_SUM
from leasehold.lifecycle.pull.files.incoming_file import Coming

from .scheduler import Desk

if TYPE_CHECKING:
    from leasehold.platforms.engine_parts import Chart, Range


_BLOCK = 64  # files, all of which are here before any is reported
_LEAST_FILES = 250  # files in one report
_PART = 16  # bytes of all files in one report, at least
_MOST = 24  # reports: a box that is still hashing can hold only this many for later


class Telling:
    """Reports the sums that came with files' bytes, in any order of arrival."""

    def __init__(self, desk: Desk, talk: Chart) -> None:
        self._desk = desk
        self._talk = talk
        self._first = 0  # first block that was not reported
        self._told: set[int] = set()  # blocks after it that were
        self._count = 0

    def step(self) -> None:
        """Report the next files, if there are many."""
        files = self._desk.files
        wanted = max(_LEAST_FILES, len(files) // _PART)
        if self._count >= _MOST or len(files) < wanted:
            return
        end = min(len(files) // _BLOCK, self._first + 2 * (wanted + 8192) // _BLOCK)
        found = [block for block in range(self._first, end) if block not in self._told and self._settled(block)]
        if len(found) * _BLOCK >= wanted:
            self._count += 1
            self._talk.tell(*self._sums(found))
            self._told.update(found)
            while self._first in self._told:
                self._told.remove(self._first)
                self._first += 1

    def rest(self) -> None:
        """Report the remaining files, and the end."""
        end = -(-len(self._desk.files) // _BLOCK)
        self._talk.seal(*self._sums(block for block in range(self._first, end) if block not in self._told))

    def _settled(self, block: int) -> bool:
        return all(map(_is_settled, self._desk.files[block * _BLOCK : (block + 1) * _BLOCK]))

    def _sums(self, blocks: Iterable[int]) -> tuple[list[Range], bytes]:
        """Format blocks as ranges of files, and their sums; zeros for what the box sums itself."""
        ranges: list[Range] = []
        sums: list[bytes] = []
        for _, group in groupby(enumerate(blocks), lambda pair: pair[1] - pair[0]):
            together = [block for _, block in group]
            files = self._desk.files[together[0] * _BLOCK : (together[-1] + 1) * _BLOCK]
            ranges.append((together[0] * _BLOCK, len(files)))
            sums += [bytes.fromhex(file.sha256) if file.sealed and file.proved else NO_SUM for file in files]
        return ranges, b"".join(sums)


def _is_settled(file: Coming) -> bool:
    """Return whether no further sum will come with it."""
    return file.proved or not file.sealed or file.skipped
