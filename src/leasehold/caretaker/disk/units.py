"""Units of a survey: a unit is a file or folder of one class, and no byte belongs to two of them."""

from __future__ import annotations

import heapq
import itertools
import os
import stat
from typing import Any, Dict, Iterator, List, Optional, Tuple

_BLOCK = 512
_MOST_UNITS = 4000
_MOST_LINKED = 200_000  # hard-linked files that we remember; beyond that, sums are reported as rough


class Unit:
    """A file or folder that can be kept or deleted as a whole."""

    __slots__ = (
        "bytes", "divided", "foreign", "frees_bytes", "identity", "inodes", "is_folder", "kind", "length", "names",
        "newest_unix", "partial", "path",
    )  # fmt: skip

    def __init__(self, kind: str, path: str, info: os.stat_result, is_folder: bool) -> None:
        self.kind = kind
        self.path = path
        self.is_folder = is_folder
        self.bytes = 0  # on the disk, each file once
        self.frees_bytes = 0  # what deleting it frees: a file with another name elsewhere frees nothing
        self.inodes = 0
        self.names = 0  # files and folders by name, and the length of all files: a second count must give the same
        self.length = 0
        self.newest_unix = info.st_mtime
        self.foreign = 0  # files of other users
        self.divided = False  # parts of it are units of their own, so it cannot be removed as a whole
        self.partial = False  # the time ran out in the middle of it
        self.identity = identity_of(info)

    def as_dict(self) -> Dict[str, Any]:
        """Format for the wire."""
        return {name: getattr(self, name) for name in self.__slots__}


def identity_of(info: os.stat_result) -> List[int]:
    """Return what must be unchanged right before a file or folder is touched: device, inode, size, mtime."""
    return [info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns]


class Tally:
    """Everything counted so far; keeps the biggest units, and the sums of all classes."""

    def __init__(self, user_id: int) -> None:
        self.user_id = user_id
        self.totals: Dict[str, List[int]] = {}  # class -> bytes, inodes, units
        self.entries = 0
        self.bytes = 0
        self.rough = False
        self._kept: List[Tuple[int, int, int, Unit]] = []
        self._order = itertools.count()
        self._linked: Dict[Tuple[int, int], List[Any]] = {}

    def add(self, unit: Optional[Unit], info: os.stat_result) -> Tuple[int, int]:
        """Count one file or folder into its unit; return its bytes and inodes, nothing if it was counted before."""
        self.entries += 1
        if unit is not None:
            unit.newest_unix = max(unit.newest_unix, info.st_mtime)
            unit.foreign += info.st_uid != self.user_id
            unit.names += 1
            unit.length += info.st_size if stat.S_ISREG(info.st_mode) else 0
        size = info.st_blocks * _BLOCK
        single = info.st_nlink == 1 or stat.S_ISDIR(info.st_mode)
        if not single and not self._first_name(unit, info, size):
            return 0, 0
        self.bytes += size
        if unit is not None:
            unit.bytes += size
            unit.inodes += 1
            unit.frees_bytes += size if single else 0
        return size, 1

    def keep(self, unit: Unit) -> None:
        """Keep a finished unit; when there are too many, drop the smallest, which stays in its class's sum."""
        total = self.totals.setdefault(unit.kind, [0, 0, 0])
        total[0] += unit.bytes
        total[1] += unit.inodes
        total[2] += 1
        entry = (unit.bytes, unit.inodes, next(self._order), unit)
        if len(self._kept) < _MOST_UNITS:
            heapq.heappush(self._kept, entry)
        else:
            heapq.heappushpop(self._kept, entry)

    def units(self) -> Iterator[Unit]:
        """Yield the units that were kept, biggest first."""
        for entry in sorted(self._kept, key=lambda item: (-item[0], -item[1], item[2])):
            yield entry[3]

    def _first_name(self, unit: Optional[Unit], info: os.stat_result, size: int) -> bool:
        """Return whether a hard-linked file is met for the first time; its last name in one unit makes it freeable."""
        key = (info.st_dev, info.st_ino)
        known = self._linked.get(key)
        if known is None:
            if len(self._linked) < _MOST_LINKED:
                self._linked[key] = [unit, info.st_nlink - 1]
            else:
                self.rough = True
            return True
        known[1] -= 1
        if known[0] is not unit:
            known[0] = None
        elif known[1] == 0 and unit is not None:
            unit.frees_bytes += size
        return False
