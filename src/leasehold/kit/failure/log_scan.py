"""Read a log once and find every known sign in it: bounded memory, bounded time a line, any length.

The text is read as bytes in blocks. Lines with their digits masked repeat all the time, so a masked line without a
literal is remembered as clean, and only new ones are searched. A carriage return ends a line too: a progress bar
prints a thousand of them between two newlines.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import accumulate, compress
from typing import Callable, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Set, Tuple

from .catalogue import MASK, Book

_LINE_BYTES = 8192  # of a longer line, only this much around the anchor is matched
_BEFORE_BYTES = 8192  # how far back a sign may look for its predecessor
_TAIL_BYTES = 16384
_BLOCK_BYTES = 1 << 20
_MOST_RANKS = 4096
_KEPT_LINES = 20_000  # masked lines known to be clean, ...
_KEPT_BYTES = 512  # ... none longer than this
_TRACEBACK = b"Traceback (most recent call last)"

_QUOTED = re.compile(rb"(?:\[rank\d{1,5}\]:\s?)?    \S")  # how a traceback quotes a line of source
_FRAME = re.compile(rb'File "[^"\n]{1,400}", line \d{1,7}, in [^\n]{1,200}\s{0,4}\Z')

_RANK = re.compile(
    rb"\[rank\s?(\d{1,5})\]|\[(?:PG [^\]]{0,60})?[Rr]ank (\d{1,5})\]|local_rank: (\d{1,5})|^\s{0,3}(\d{1,5}): "
)
_STAMP = re.compile(
    rb"(?:\d{4}[-/](\d{2})[-/](\d{2})[ T]|\b[EWIF](\d{1,2})(\d{2}) )(\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?)"
)
# What a run prints when it continues: a counter of its own that grows, or a message that an attempt succeeded.
_GOES_ON = re.compile(
    rb"(?i:\b(?:epoch|step|iter|iteration)s?\b[\]: =#\[(]{0,4}\d)|\d/\d{1,9} \[|\d(?:it/s|s/it)"
    rb"|\bloss\b['\"]?[=: ]{1,3}\d"
    rb"|Successfully installed|Requirement already|Successfully built|Started container|SuccessfulAttachVolume"
    rb"|100%|reconnected|[Rr]esum(?:ed|ing) "
)


class Place(NamedTuple):
    """The position of a line: its number from 1, its first byte's offset, its text."""

    line: int
    offset: int
    text: str


class Hit(NamedTuple):
    """One entry as found in a log."""

    entry: int
    times: int
    first: Place
    last: Place
    rank: Optional[int]  # rank of the first line, if the line names it
    ranks: Tuple[int, ...]  # every rank that printed it, in order of appearance
    stamp: str  # the time written at or before the first line, comparable as text


class Scan(NamedTuple):
    """The findings in one log."""

    hits: List[Hit]
    lines: int
    size: int
    tail: str


class _Tally:
    """An entry's count while the log is read."""

    def __init__(self, place: Place, stamp: str) -> None:
        self.count = 0
        self.first = place
        self.last = place
        self.stamp = stamp
        self.ranks: List[int] = []
        self.rank: Optional[int] = None

    def add(self, place: Place, rank: Optional[int]) -> None:
        self.count += 1
        self.last = place
        if self.count == 1:
            self.rank = rank
        if rank is not None and rank not in self.ranks and len(self.ranks) < _MOST_RANKS:
            self.ranks.append(rank)


class Scanner:
    """Scans a log in pieces of any size; `finish` returns the findings."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._held = b""
        self._before = b""  # the end of what was read, for signs that look back
        self._size = 0
        self._lines = 0
        self._open_line = False
        self._tallies: Dict[int, _Tally] = {}
        self._clean: Set[bytes] = set()
        self._held_signs: Dict[bytes, FrozenSet[int]] = {}

    def feed(self, data: bytes) -> None:
        """Process the next bytes."""
        self._held += data
        if len(self._held) < _BLOCK_BYTES:
            return
        cut = max(self._held.rfind(b"\n"), self._held.rfind(b"\r")) + 1
        if not cut:
            if len(self._held) < 2 * _BLOCK_BYTES:
                return
            cut = len(self._held)  # a line without end; a sign across the cut is missed
        block, self._held = self._held[:cut], self._held[cut:]
        self._read(block)

    def finish(self) -> Scan:
        """Process the remaining bytes and return the findings; soft signs that the run outlived are dropped."""
        if self._held:
            block, self._held = self._held, b""
            self._read(block)
        hits = [self._hit(index, tally) for index, tally in self._tallies.items() if self._stands(index, tally)]
        lines = self._lines + (1 if self._open_line else 0)
        tail = self._before[-_TAIL_BYTES:].decode("utf-8", "replace")
        return Scan(sorted(hits, key=lambda hit: hit.first.offset), lines, self._size, tail)

    def _read(self, block: bytes) -> None:
        found = self._candidates(block)
        counted, seen = self._lines, 0
        for start, end in sorted(found):
            counted += block.count(b"\n", seen, start)
            seen = start
            place = Place(counted + 1, self._size + start, "")
            self._match(found[(start, end)], place, block[start:end], partial(self._back, block, start))
        self._lines = counted + block.count(b"\n", seen)
        self._open_line = not block.endswith(b"\n")
        self._size += len(block)
        keep = max(_TAIL_BYTES, _BEFORE_BYTES)
        self._before = (self._before + block)[-keep:] if len(block) < keep else block[-keep:]

    def _back(self, block: bytes, start: int) -> bytes:
        """Return the text before a line of this block, including text in the block before."""
        here = block[max(0, start - _BEFORE_BYTES) : start]
        return here if start >= _BEFORE_BYTES else (self._before + here)[-_BEFORE_BYTES:]

    def _candidates(self, block: bytes) -> Dict[Tuple[int, int], FrozenSet[int]]:
        """Return the lines that hold a literal, each with the signs it may belong to."""
        lines = block.translate(MASK).split(b"\n")
        unknown = set(lines).difference(self._clean)
        joined = b"\n".join(unknown)
        present = [anchor for anchor in self._book.anchors if anchor in joined]
        dirty = {line for line in unknown if any(anchor in line for anchor in present)} if present else set()
        dirty -= {line for line in dirty if len(line) <= _KEPT_BYTES and not self._signs_in(line)}
        self._remember(unknown - dirty)
        found: Dict[Tuple[int, int], FrozenSet[int]] = {}
        for at, line in _placed(lines, dirty) if dirty else ():
            for start, end in _windows(line, present):
                signs = self._signs_in(line[start:end])
                if signs:
                    found[(at + start, at + end)] = signs
        return found

    def _remember(self, clean: Set[bytes]) -> None:
        if len(self._clean) > _KEPT_LINES:
            self._clean.clear()
        self._clean.update(line for line in clean if len(line) <= _KEPT_BYTES)

    def _signs_in(self, line: bytes) -> FrozenSet[int]:
        signs = self._held_signs.get(line)
        if signs is None:
            signs = self._book.signs_in(line)
            if len(self._held_signs) > _KEPT_LINES // 10:
                self._held_signs.clear()
            if len(line) <= _KEPT_BYTES:
                self._held_signs[line] = signs
        return signs

    def _match(self, signs: FrozenSet[int], place: Place, line: bytes, before: Callable[[], bytes]) -> None:
        if _QUOTED.match(line) and _FRAME.search(before()[-1024:]):
            return  # source that a traceback quotes: a message it could print, not an event
        entries: Set[int] = set()
        for number in sorted(signs):
            sign = self._book.signs[number]
            if sign.entry in entries or not sign.found_in(line):
                continue
            if sign.has_after and not sign.follows_from(_block_of(before()) + line):
                continue
            entries.add(sign.entry)
        for index in entries:
            self._count(index, place, line, before)

    def _count(self, index: int, place: Place, line: bytes, before: Callable[[], bytes]) -> None:
        whole = Place(place.line, place.offset, line.decode("utf-8", "replace").strip("\r\n"))
        tally = self._tallies.get(index)
        if tally is None:
            tally = self._tallies[index] = _Tally(whole, _stamp(line) or _stamp(before()))
        tally.add(whole, _rank(line))

    def _stands(self, index: int, tally: _Tally) -> bool:
        entry = self._book.entries[index]
        if tally.count < entry.least:
            return False
        if not entry.soft:
            return True
        since = self._size - tally.last.offset
        if since > _TAIL_BYTES:
            return False
        after = self._before[len(self._before) - since + len(tally.last.text.encode("utf-8", "replace")) :]
        return _GOES_ON.search(after) is None

    def _hit(self, index: int, tally: _Tally) -> Hit:
        return Hit(index, tally.count, tally.first, tally.last, tally.rank, tuple(tally.ranks), tally.stamp)


def scan(book: Book, chunks: Iterable[bytes]) -> Scan:
    """Scan a whole log from its pieces."""
    scanner = Scanner(book)
    for chunk in chunks:
        scanner.feed(chunk)
    return scanner.finish()


def _placed(lines: List[bytes], wanted: Set[bytes]) -> Iterable[Tuple[int, bytes]]:
    """Return the candidate lines with their offsets; the loop over all lines runs inside the interpreter."""
    placed = enumerate(zip(accumulate(map(len, lines)), lines))
    for number, (end, line) in compress(placed, map(wanted.__contains__, lines)):
        yield end - len(line) + number, line


def _windows(line: bytes, anchors: List[bytes]) -> List[Tuple[int, int]]:
    """Return the line itself, or the parts around each anchor if it is too long to match whole."""
    if len(line) <= _LINE_BYTES:
        return [(0, len(line))]
    found = []
    for anchor in anchors:
        at = line.find(anchor)
        while at >= 0:
            start, end = max(0, at - _LINE_BYTES // 2), min(len(line), at + _LINE_BYTES // 2)
            found.append((start, end))
            at = line.find(anchor, end)
    return sorted(set(found))


def _block_of(before: bytes) -> bytes:
    """Return the traceback that the text before a line ends with; without a head, the last half of the text."""
    head = before.rfind(_TRACEBACK)
    return before[head:] if head >= 0 else before[-_BEFORE_BYTES // 2 :]


def _rank(line: bytes) -> Optional[int]:
    found = _RANK.search(line)
    return int(next(group for group in found.groups() if group is not None)) if found else None


def _stamp(text: bytes) -> str:
    """Return the last time written in a text, as month-day and clock: logs of one run rarely span a new year."""
    every = list(_STAMP.finditer(text))
    if not every:
        return ""
    last = every[-1]
    month, day = last.group(1) or last.group(3), last.group(2) or last.group(4)
    return "%02d-%02d %s" % (int(month), int(day), last.group(5).decode().replace(",", "."))
