"""The chart of a run's artifacts: what is there at once, then sums as they are taken; bytes travel meanwhile.

The sender follows the hasher: a block that was just hashed lies in memory, so each byte is read from the disk once.
Equal blocks are found by a thin sample and then compared byte by byte; nothing rests on a weak sum.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional, Protocol, Tuple

from leasehold.kit import manifest
from leasehold.kit.manifest import ManifestError
from leasehold.kit.match import Found
from leasehold.kit.paths import UnsafePath, check_relative, open_below

from .hash_memory import HashMemory

BLOCK_BYTES = 1 << 20
_ENTRIES_A_FRAME = 250
_TELL_EVERY_BYTES = 32 << 20
_TELL_EVERY_S = 0.05
_STRIDE = 1021
_ZEROS = bytes(BLOCK_BYTES)

Place = Tuple[int, int]  # which file of the chart, which block of it


class Listener(Protocol):
    """Who is told as it goes."""

    @property
    def gone(self) -> bool:
        """Whether nobody listens any more."""

    def reply(self, value: Dict[str, Any]) -> None:
        """Tell one thing."""


class Chart:
    """Hashes a roster in order and tells home as it goes."""

    def __init__(self, request: Listener, roots: Dict[str, str], roster: Dict[str, List[Found]], memory: HashMemory):
        self._request = request
        self._roots = roots
        self._files = [(cell, found) for cell, hits in sorted(roster.items()) for found in hits]
        self._names = [cell + "/" + found.path for cell, found in self._files]
        self._memory = memory
        self._samples: Dict[bytes, Place] = {}
        self._done: List[List[Any]] = []
        self._told_at = time.monotonic()
        self._known: Dict[str, int] = {}  # files whose sums and equal blocks are told, by name

    def tell_files(self) -> None:
        """Say every file with its size and time, unread."""
        for start in range(0, len(self._files), _ENTRIES_A_FRAME):
            some = self._files[start : start + _ENTRIES_A_FRAME]
            self._request.reply({"files": [[cell, manifest.stat_entry(found)] for cell, found in some]})
        self._request.reply({"listed": len(self._files)})

    def take_sums(self, lenient: bool = False) -> Dict[str, List[Dict[str, Any]]]:
        """Hash each file; return manifest entries by cell. Lenient leaves out what changes meanwhile."""
        cells: Dict[str, List[Dict[str, Any]]] = {}
        for number, (cell, found) in enumerate(self._files):
            if self._request.gone:
                break
            try:
                entry = self._sum(number, cell, found)
            except ManifestError:
                if not lenient:
                    raise
                self._done.append([number, ""])
                continue
            cells.setdefault(cell, []).append(entry)
        self._tell_done()
        self._memory.save()
        return cells

    def _sum(self, number: int, cell: str, found: Found) -> Dict[str, Any]:
        key = self._names[number]
        noted = self._memory.find(key, found.info)
        if noted is not None:
            self._request_blocks(number, found.info.st_size, noted)
            sha256 = str(noted["sha256"])
        else:
            info, sha256, same = self._read(number, cell, found)
            found = Found(found.path, info)
            self._memory.note(key, info, {"sha256": sha256, **same})
        self._known[key] = number
        self._done.append([number, sha256])
        if len(self._done) >= _ENTRIES_A_FRAME or time.monotonic() - self._told_at > _TELL_EVERY_S:
            self._tell_done()
        entry = manifest.stat_entry(found)
        entry["sha256"] = sha256
        return entry

    def _read(self, number: int, cell: str, found: Found) -> Tuple[os.stat_result, str, Dict[str, Any]]:
        import hashlib

        where = os.path.join(self._roots[cell], found.path)
        sha = hashlib.sha256()
        try:
            fd = open_below(self._roots[cell], found.path)
        except (OSError, UnsafePath) as error:  # swapped since it was listed
            raise ManifestError("%s cannot be read: %s" % (where, error)) from None
        same = _Same()
        with os.fdopen(fd, "rb", buffering=0) as file:
            many = found.info.st_size > BLOCK_BYTES
            offset = told = 0
            for block in iter(lambda: file.read(BLOCK_BYTES), b""):
                sha.update(block)
                if many:
                    self._look_for_equal(same, (number, offset // BLOCK_BYTES), block)
                offset += len(block)
                if offset - told >= _TELL_EVERY_BYTES:
                    self._request.reply({"file": number, "upto": offset, **same.news()})
                    told = offset
            after = os.fstat(file.fileno())
        if not _alike(found.info, after) or offset != after.st_size:
            raise ManifestError("%s changed while it was hashed; is something still writing it?" % where)
        if many:
            self._request.reply({"file": number, "upto": offset, **same.news()})
        return after, sha.hexdigest(), {"zeros": same.zeros, "copies": self._by_name(same.copies)}

    def _look_for_equal(self, same: "_Same", place: Place, block: bytes) -> None:
        if block == (_ZEROS if len(block) == BLOCK_BYTES else _ZEROS[: len(block)]):
            same.zeros.append(place[1])
            return
        sample = block[::_STRIDE]
        earlier = self._samples.setdefault(sample, place)
        if earlier != place and self._block(earlier) == block:
            same.copies.append([place[1], earlier[0], earlier[1]])

    def _block(self, place: Place) -> Optional[bytes]:
        cell, found = self._files[place[0]]
        try:
            fd = open_below(self._roots[cell], found.path)
        except (OSError, UnsafePath):
            return None
        with os.fdopen(fd, "rb", buffering=0) as file:
            file.seek(place[1] * BLOCK_BYTES)
            return file.read(BLOCK_BYTES)

    def _by_name(self, copies: List[List[int]]) -> List[List[Any]]:
        return [[block, self._names[of], at] for block, of, at in copies]

    def _request_blocks(self, number: int, size: int, noted: Dict[str, Any]) -> None:
        """Repeat what was told of a file's blocks when it was hashed; a source that changed since is left out."""
        if size <= BLOCK_BYTES:
            return
        here = {**self._known, self._names[number]: number} if noted.get("copies") else {}
        copies = [[block, here[name], at] for block, name, at in noted.get("copies", []) if name in here]
        self._request.reply({"file": number, "upto": size, "zeros": noted.get("zeros", []), "copies": copies})

    def _tell_done(self) -> None:
        if self._done:
            self._request.reply({"sums": self._done})
        self._done = []
        self._told_at = time.monotonic()


class _Same:
    """Blocks of one file that need not travel, and how many of them were told."""

    def __init__(self) -> None:
        self.zeros: List[int] = []
        self.copies: List[List[int]] = []
        self._told = (0, 0)

    def news(self) -> Dict[str, Any]:
        """Return what was found since the last call."""
        zeros, copies = self.zeros[self._told[0] :], self.copies[self._told[1] :]
        self._told = (len(self.zeros), len(self.copies))
        return {"zeros": zeros, "copies": copies}


def settled(roster: Dict[str, List[Found]], quiet_s: float, now: float) -> Dict[str, List[Found]]:
    """Keep plain files that nobody has written for a while: what may be taken from under a running trainer."""
    kept: Dict[str, List[Found]] = {}
    for cell, hits in roster.items():
        good = [found for found in hits if found.is_file and found.info.st_size and _named(found.path)]
        kept[cell] = [found for found in good if now - found.info.st_mtime >= quiet_s]
    return {cell: hits for cell, hits in kept.items() if hits}


def _named(path: str) -> bool:
    try:
        check_relative(path)
    except UnsafePath:
        return False
    return not path.endswith((".tmp", ".partial", ".part"))


def _alike(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns, before.st_ino) == (after.st_size, after.st_mtime_ns, after.st_ino)
