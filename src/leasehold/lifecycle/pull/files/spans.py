"""Merged ranges of one file: those that are here, or those that were requested."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class Spans:
    """Disjoint half-open ranges in order."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._starts, self._ends, strict=True))

    def __bool__(self) -> bool:
        return bool(self._starts)

    @property
    def total(self) -> int:
        """Return how many bytes they cover."""
        return sum(self._ends) - sum(self._starts)

    @property
    def prefix(self) -> int:
        """Return how far they reach from 0 without a gap."""
        return self._ends[0] if self._starts and self._starts[0] == 0 else 0

    def cover(self, end: int) -> None:
        """Cover everything from 0 to here, and nothing beyond."""
        self._starts, self._ends = [0], [end]

    def add(self, start: int, end: int) -> None:
        """Cover a range; merge the ranges that it touches."""
        if end <= start:
            return
        first, last = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [start], [end]

    def remove(self, start: int, end: int) -> None:
        """Uncover a range."""
        kept = Spans()
        for one, other in self:
            kept.add(one, min(other, start))
            kept.add(max(one, end), other)
        self._starts, self._ends = kept._starts, kept._ends

    def covers(self, start: int, end: int) -> bool:
        """Return whether a whole range is covered."""
        at = bisect_right(self._starts, start) - 1
        return end <= start or (at >= 0 and self._ends[at] >= end)

    def gaps(self, upto: int) -> Iterator[tuple[int, int]]:
        """Yield the uncovered ranges below upto."""
        at = 0
        for start, end in self:
            if start >= upto:
                break
            if at < start:
                yield at, start
            at = end
        if at < upto:
            yield at, upto
