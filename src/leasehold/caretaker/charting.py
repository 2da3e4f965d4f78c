"""The chart of a run's artifacts: what is there at once, then sums as they are taken; bytes travel meanwhile.

The sender follows the hasher: a block that was just hashed lies in memory, so each byte is read from the disk once.
Equal blocks are found by a thin sample and then compared byte by byte; nothing rests on a weak sum.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Protocol, Set, Tuple

from leasehold.kit import frames, manifest
from leasehold.kit.manifest import ManifestError
from leasehold.kit.match import Found
from leasehold.kit.paths import UnsafePath, check_relative, open_below
from leasehold.kit.sums import new_sha256

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

    def data(self, chunk: bytes) -> None:
        """Send bytes."""

    def body(self) -> Iterator[frames.Frame]:
        """Hear what is said meanwhile."""


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
        self._entries: Dict[int, Dict[str, Any]] = {}
        self._left_out: Set[int] = set()
        self._known: Dict[str, int] = {}  # files whose sums and equal blocks are told, by name

    def tell_files(self) -> None:
        """Say every file with its size and time, unread: a packed list, since over a long way its bytes take long."""
        listed = [[cell, manifest.stat_entry(found)] for cell, found in self._files]
        packed = zlib.compress(json.dumps(listed, separators=(",", ":")).encode("ascii"), 1)
        for start in range(0, len(packed), frames.CHUNK_BYTES):
            self._request.data(packed[start : start + frames.CHUNK_BYTES])
        self._request.reply({"listed": len(self._files)})

    def take_sums(self, lenient: bool = False) -> Optional[Dict[str, List[Dict[str, Any]]]]:
        """Hash each file; return manifest entries by cell. Lenient leaves out what changes meanwhile.

        Small ones are summed by whoever sends them: home says which of them it wants summed here, and in the end what
        the others came to. None: home wants no manifest any more.
        """
        late = [number for number, _ in enumerate(self._files) if not self._sum_early(number, lenient)]
        self._tell_done()
        heard = self._hear(lenient)
        if heard is None:
            return None
        for number in late:
            if number not in self._entries and number not in self._left_out:
                self._note_heard(number, heard[32 * number : 32 * number + 32], lenient)
        self._tell_done()
        self._memory.save()
        cells: Dict[str, List[Dict[str, Any]]] = {}
        for number, (cell, _) in enumerate(self._files):
            if number in self._entries:
                cells.setdefault(cell, []).append(self._entries[number])
        return cells

    def _sum_early(self, number: int, lenient: bool) -> bool:
        _, found = self._files[number]
        known = self._memory.find(self._names[number], found.info)
        if self._request.gone or (known is None and found.info.st_size <= manifest.TINY_BYTES):
            return False
        self._sum(number, lenient)
        return True

    def _hear(self, lenient: bool) -> Optional[bytes]:
        """Take the sums that home asks for; return those that it was sent, 32 bytes a file, zeros where it has none."""
        heard = []
        for frame in self._request.body():
            if frame.type == frames.DATA:
                heard.append(frame.payload)
                continue
            said = frame.json()
            if said.get("leave"):
                return None
            for number in said.get("sum", ()):
                fresh = 0 <= int(number) < len(self._files) and int(number) not in self._entries
                if fresh and not self._request.gone:
                    self._sum(int(number), lenient)
            self._tell_done()
        return b"".join(heard)

    def _note_heard(self, number: int, digest: bytes, lenient: bool) -> None:
        if len(digest) != 32 or not any(digest):
            self._sum(number, lenient)
            return
        _, found = self._files[number]
        self._memory.note(self._names[number], found.info, {"sha256": digest.hex()})
        self._entries[number] = {**manifest.stat_entry(found), "sha256": digest.hex()}

    def _sum(self, number: int, lenient: bool) -> None:
        try:
            self._entries[number] = self._summed(number, *self._files[number])
        except ManifestError:
            if not lenient:
                raise
            self._left_out.add(number)
            self._done.append([number, ""])

    def _summed(self, number: int, cell: str, found: Found) -> Dict[str, Any]:
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
        where = os.path.join(self._roots[cell], found.path)
        sha = new_sha256(found.info.st_size)
        try:
            fd = open_below(self._roots[cell], found.path)
        except (OSError, UnsafePath) as error:  # swapped since it was listed
            raise ManifestError("%s cannot be read: %s" % (where, error)) from None
        same = _Same()
        with os.fdopen(fd, "rb", buffering=0) as file:
            many = found.info.st_size > BLOCK_BYTES
            offset = told = 0
            for block in _blocks(file):
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

    def _look_for_equal(self, same: "_Same", place: Place, block: bytearray) -> None:
        if block == (_ZEROS if len(block) == BLOCK_BYTES else _ZEROS[: len(block)]):
            same.zeros.append(place[1])
            return
        sample = bytes(block[::_STRIDE])
        earlier = self._samples.setdefault(sample, place)
        if earlier != place and (self._block(earlier) or b"") == bytes(block):
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


def _blocks(file: BinaryIO) -> Iterator[bytearray]:
    """Read a file block by block into the same memory, which is good until the next one: new memory costs as much."""
    buffer = bytearray(BLOCK_BYTES)
    while True:
        got = file.readinto(buffer)  # type: ignore[attr-defined]
        if not got:
            return
        yield buffer if got == BLOCK_BYTES else buffer[:got]


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
