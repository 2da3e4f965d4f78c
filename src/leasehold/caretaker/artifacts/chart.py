"""Chart a run's artifacts: list the files at once, then hash them while their bytes already travel.

The sender follows the hasher: a block that was just hashed is still in memory, so each byte is read from the disk once.
Equal blocks are found by a thin sample and then compared byte by byte; nothing depends on a weak checksum.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from typing import Any, BinaryIO, Dict, Iterable, Iterator, List, Optional, Protocol, Sequence, Set, Tuple

from leasehold.kit.files import manifest
from leasehold.kit.files.globbing import Found, Matches
from leasehold.kit.files.manifest import ManifestError
from leasehold.kit.files.paths import UnsafePath, check_relative, open_below
from leasehold.kit.files.sha256 import new_sha256
from leasehold.kit.wire import frames
from leasehold.kit.wire.frames import BLOCK_BYTES, ENTRIES_A_FRAME, NO_SUM

from .hash_cache import HashMemory

_FIRST_ROWS = 250  # home starts to fetch with these while the rest is still being listed
_ROWS = 1000
_TELL_EVERY_BYTES = 32 << 20
_TELL_EVERY_S = 0.05
_STRIDE = 1021
_ZEROS = bytes(BLOCK_BYTES)

PASSING = "its name says that it is not complete"
_MOST_LEFT = 1000
_MOST_WORDS = 300

Place = Tuple[int, int]  # file index in the chart, block index
Left = Tuple[str, str, str]  # a file that is left out: cell, path, why


class Listener(Protocol):
    """Receives the chart as it grows."""

    @property
    def gone(self) -> bool:
        """Whether the listener is gone."""

    def reply(self, value: Dict[str, Any]) -> None:
        """Send one object."""

    def data(self, chunk: bytes) -> None:
        """Send bytes."""

    def body(self) -> Iterator[frames.Frame]:
        """Receive what is sent meanwhile."""


class Chart:
    """Lists and hashes artifacts in the order they are found, and reports each step to home."""

    def __init__(
        self, request: Listener, roots: Dict[str, str], memory: HashMemory, views: Optional[Dict[str, str]] = None
    ) -> None:
        self._request = request
        self._roots = roots
        self._views = views or {}  # by cell, a stable view of some of its files
        self._files: List[Tuple[str, Found]] = []
        self._names: List[str] = []
        self._memory = memory
        self._turn: Iterator[int] = iter(())  # files whose sums home reports now, or leaves to us
        self._part = b""  # a sum that was split between two chunks
        self._samples: Dict[bytes, Place] = {}
        self._done: List[List[Any]] = []
        self._told_at = time.monotonic()
        self._entries: Dict[int, Dict[str, Any]] = {}
        self._left_out: Set[int] = set()
        self._known: Dict[str, int] = {}  # files whose sums and equal blocks are reported, by name

    def add(self, cell: str, found: Found) -> None:
        """Add one more file."""
        self._files.append((cell, found))
        self._names.append(cell + "/" + found.path)

    def tell_files(
        self, files: Iterable[Tuple[str, Found]], left: Sequence[Left] = (), also: Optional[Dict[str, Any]] = None
    ) -> None:
        """Report every file with its size and time, unread, as it is found; packed, since bytes count on slow links.

        left: files that are not listed, and why; also: what else is reported at the end of the list.
        """
        rows: List[List[Any]] = []
        for cell, found in files:
            self.add(cell, found)
            rows.append([cell, found.path, found.info.st_size, found.info.st_mtime_ns])
            if len(rows) >= (_ROWS if len(self._files) > _FIRST_ROWS else _FIRST_ROWS):
                self._tell_rows(rows)
                rows = []
        if rows:
            self._tell_rows(rows)
        more = {"left": [list(one) for one in left[:_MOST_LEFT]]} if left else {}
        self._request.reply({"listed": len(self._files), **more, **(also or {})})

    def _tell_rows(self, rows: List[List[Any]]) -> None:
        """Report these in one frame, which is a list by itself; in two, if their names are that long."""
        packed = zlib.compress(json.dumps(rows, separators=(",", ":")).encode("ascii"), 1)
        if len(packed) <= frames.MAX_PAYLOAD_BYTES:
            self._request.data(packed)
            return
        self._tell_rows(rows[: len(rows) // 2])
        self._tell_rows(rows[len(rows) // 2 :])

    def take_sums(self, lenient: bool = False) -> Optional[Dict[str, List[Dict[str, Any]]]]:
        """Hash each file; return manifest entries by cell. Lenient leaves out files that change meanwhile.

        Small files are hashed by the side that sends them: home names those that it wants hashed here, and reports the
        sums of the others as they arrive. None: home does not want a manifest any more.
        """
        for number in range(len(self._files)):
            self._sum_early(number, lenient)
        self._tell_done()
        if self._entries:  # files that took long to read
            self._memory.save()
        if not self._hear(lenient):
            return None
        for number in range(len(self._files)):
            if number not in self._entries and number not in self._left_out:
                self._sum(number, lenient)
        self._tell_done()
        cells: Dict[str, List[Dict[str, Any]]] = {}
        for number in sorted(self._entries, key=self._names.__getitem__):
            cells.setdefault(self._files[number][0], []).append(self._entries[number])
        return cells

    def remember(self) -> None:
        """Keep every sum for the next time."""
        self._memory.save()

    def _sum_early(self, number: int, lenient: bool) -> None:
        _, found = self._files[number]
        known = self._memory.find(self._names[number], found.info)
        if not self._request.gone and (known is not None or found.info.st_size > manifest.TINY_BYTES):
            self._sum(number, lenient)

    def _hear(self, lenient: bool) -> bool:
        """Read which sums home asks for and which it received; return whether it still wants a manifest."""
        for frame in self._request.body():
            if frame.type == frames.DATA:
                self._note_told(frame.payload)
                continue
            said = frame.json()
            if said.get("leave"):
                return False
            if "told" in said:
                self._turn, self._part = self._told_of(said["told"]), b""
            for number in said.get("sum", ()):
                fresh = 0 <= int(number) < len(self._files) and int(number) not in self._entries
                if fresh and not self._request.gone:
                    self._sum(int(number), lenient)
            self._tell_done()
        return True

    def _told_of(self, ranges: List[List[int]]) -> Iterator[int]:
        """Count the files of ranges [first, how many]."""
        for start, count in ranges:
            yield from range(max(0, int(start)), min(int(start) + int(count), len(self._files)))

    def _note_told(self, digests: bytes) -> None:
        """Record the sums of the next files, 32 bytes each, zeros where home received none."""
        digests = self._part + digests
        whole = len(digests) - len(digests) % 32
        for at, number in zip(range(0, whole, 32), self._turn):
            digest = digests[at : at + 32]
            if number in self._entries or number in self._left_out or digest == NO_SUM:
                continue
            sha256, (_, found) = digest.hex(), self._files[number]
            self._memory.note(self._names[number], found.info, {"sha256": sha256})
            self._entries[number] = {**manifest.stat_entry(found), "sha256": sha256}
        self._part = digests[whole:]

    def _sum(self, number: int, lenient: bool) -> None:
        try:
            self._entries[number] = self._summed(number, *self._files[number])
        except ManifestError as error:
            if not lenient:
                raise
            self._left_out.add(number)
            self._done.append([number, "", str(error)[:_MOST_WORDS]])

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
        if len(self._done) >= ENTRIES_A_FRAME or time.monotonic() - self._told_at > _TELL_EVERY_S:
            self._tell_done()
        entry = manifest.stat_entry(found)
        entry["sha256"] = sha256
        return entry

    def _read(self, number: int, cell: str, found: Found) -> Tuple[os.stat_result, str, Dict[str, Any]]:
        where = os.path.join(self._roots[cell], found.path)
        sha = new_sha256(found.info.st_size)
        try:
            fd = self._opened(cell, found.path)
        except (OSError, UnsafePath) as error:  # replaced since it was listed
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

    def _opened(self, cell: str, path: str) -> int:
        """Open a file of the stable view, if it is there, else that of the trainer."""
        if cell in self._views:
            with contextlib.suppress(FileNotFoundError):
                return open_below(self._views[cell], path)
        return open_below(self._roots[cell], path)

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
            fd = self._opened(cell, found.path)
        except (OSError, UnsafePath):
            return None
        with os.fdopen(fd, "rb", buffering=0) as file:
            file.seek(place[1] * BLOCK_BYTES)
            return file.read(BLOCK_BYTES)

    def _by_name(self, copies: List[List[int]]) -> List[List[Any]]:
        return [[block, self._names[of], at] for block, of, at in copies]

    def _request_blocks(self, number: int, size: int, noted: Dict[str, Any]) -> None:
        """Repeat what was reported of a file's blocks when it was hashed; leave out a source that changed since."""
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
    """Read a file block by block into one buffer, which is valid until the next block: allocating costs as much."""
    buffer = bytearray(BLOCK_BYTES)
    while True:
        got = file.readinto(buffer)  # type: ignore[attr-defined]
        if not got:
            return
        yield buffer if got == BLOCK_BYTES else buffer[:got]


class _Same:
    """Blocks of one file that need not travel, and how many of them were reported."""

    def __init__(self) -> None:
        self.zeros: List[int] = []
        self.copies: List[List[int]] = []
        self._told = (0, 0)

    def news(self) -> Dict[str, Any]:
        """Return what was found since the last call."""
        zeros, copies = self.zeros[self._told[0] :], self.copies[self._told[1] :]
        self._told = (len(self.zeros), len(self.copies))
        return {"zeros": zeros, "copies": copies}


def fetchable(cells: Dict[str, str], patterns: List[str]) -> Tuple[List[Tuple[str, Found]], List[Left]]:
    """List the plain files that match and can be fetched by themselves, and those that cannot, each with the reason."""
    files: List[Tuple[str, Found]] = []
    left: List[Left] = []
    for cell, root in sorted(cells.items()):
        for found in Matches(root, patterns):
            why = _unfit(found)
            if not why:
                files.append((cell, found))
            elif why != PASSING:
                left.append((cell, found.path, why))
    return files, left


def settled(cells: Dict[str, str], patterns: List[str], quiet_s: float, now: float) -> Iterator[Tuple[str, Found]]:
    """Yield non-empty plain files that nobody has written for a while: these can be fetched while a trainer runs."""
    for cell, found in fetchable(cells, patterns)[0]:
        if now - found.info.st_mtime >= quiet_s:
            yield cell, found


def _unfit(found: Found) -> str:
    try:
        check_relative(found.path)
    except UnsafePath as error:
        return str(error)
    if found.path.endswith((".tmp", ".partial", ".part")):
        return PASSING
    if not found.is_file:
        return "it is a symlink" if found.is_link else "it is not a regular file"
    return "" if found.info.st_size else "it is empty"


def _alike(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns, before.st_ino) == (after.st_size, after.st_mtime_ns, after.st_ino)
