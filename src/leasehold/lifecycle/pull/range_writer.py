"""Split one stream of bytes into the requested ranges, and write each where it belongs."""

from __future__ import annotations

import os
import threading
from hashlib import sha256

from leasehold.kit.files.atomic import write_all
from leasehold.kit.wire.frames import BLOCK_BYTES
from leasehold.lifecycle.pull.files.block_buffer import Gathering
from leasehold.lifecycle.pull.files.incoming_file import Coming

from .jobs import Piece
from .scheduler import Desk

_NOTED_TOGETHER = 32
_SUM_BYTES = 32
_CUT_BYTES = 64 << 10
_CAREFUL = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_ANEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CAREFUL


class _Folder:
    """Creates files anew; keeps the last folder open, since walking a long path is slow."""

    def __init__(self) -> None:
        self._name = ""
        self._fd = -1

    def create(self, target: str) -> int:
        """Open an empty file for writing; create its folder if needed."""
        folder, _, name = target.rpartition(os.sep)
        if folder != self._name:
            self._enter(folder)
        return os.open(target, _ANEW, 0o644) if self._fd < 0 else os.open(name, _ANEW, 0o644, dir_fd=self._fd)

    def close(self) -> None:
        """Close the folder. A second call does nothing."""
        fd, self._fd, self._name = self._fd, -1, ""
        if fd >= 0:
            os.close(fd)

    def _enter(self, folder: str) -> None:
        self.close()
        os.makedirs(folder, exist_ok=True)
        if os.open in os.supports_dir_fd:
            self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._name = folder


class Landing:
    """Takes the bytes of one request; leave() keeps what came of a range that was cut and returns the rest.

    One thread calls add and leave; any thread may read what is left, and take over part of it.
    """

    def __init__(self, desk: Desk, pieces: list[Piece], gathering: Gathering | None = None) -> None:
        self._desk = desk
        self._pieces = pieces
        self._gathering = gathering  # with it, whole blocks of large files bypass the cache
        self._lock = threading.RLock()
        self._at = 0  # index of the current piece
        self._done = 0  # bytes of it that are here
        self._noted = 0  # bytes of it that are logged
        self._held: list[memoryview] = []  # of a small file, written in one call
        self.sum_bytes = 0  # sums that came with files: not part of them
        self.came_bytes = 0
        self._whole: list[Coming] = []  # small files that are here but not logged yet
        self._folder = _Folder()

    @property
    def full(self) -> bool:
        """Return whether everything that was requested is here."""
        return self._at == len(self._pieces)

    @property
    def left_bytes(self) -> int:
        """Return how many bytes are still to come."""
        with self._lock:
            here = self._done + self._gathered
            return sum(piece.end - piece.start for piece in self._pieces[self._at :]) - here

    def add(self, chunk: bytes) -> None:
        """Write bytes where they belong; drop those that were not requested."""
        with self._lock:
            self.came_bytes += len(chunk)
            self._add(memoryview(chunk))

    def give_up(self, keep_bytes: int) -> list[Piece]:
        """Accept about this many more bytes and no others; return the ranges that another stream may bring."""
        with self._lock:
            kept, given = self._pieces[: self._at], []
            here = self._done + self._gathered
            for piece in self._pieces[self._at :]:
                start = piece.start + here
                cut = start + -(-max(0, keep_bytes) // _CUT_BYTES) * _CUT_BYTES
                whole = piece.file.sealed or _at_one_go(piece)
                if keep_bytes > 0 and (whole or cut >= piece.end):
                    kept.append(piece)
                elif cut > piece.start and not whole:
                    kept.append(Piece(piece.file, piece.start, cut))
                    given.append(Piece(piece.file, cut, piece.end))
                else:
                    given.append(piece)
                keep_bytes -= piece.end - start
                here = 0
            if len(kept) == self._at:
                self._held, self._done = [], 0  # of a small file that another stream brings whole
            self._pieces = kept
        return given

    def _add(self, view: memoryview) -> None:
        while len(view) and not self.full:
            piece = self._pieces[self._at]
            missing = self._missing(piece)
            if _at_one_go(piece):
                part = view[:missing]
                self._held.append(part)
                self._done += len(part)
            else:
                part = self._put(piece, view[:missing])
            view = view[len(part) :]
            if self._missing(piece) == 0:
                self._finish(piece)
            elif not self._held and self._done - self._noted >= BLOCK_BYTES:
                self._note(piece)

    def leave(self, *, alone: bool = False) -> None:
        """Finish, complete or not. A second call does nothing."""
        with self._lock:
            self._leave(alone)

    def _leave(self, alone: bool) -> None:
        self._folder.close()
        self._note_whole()
        if self.full:
            return
        piece = self._pieces[self._at]
        if self._held:
            part = b"".join(self._held)[: piece.file.bytes]
            self._desk.unseal(piece.file)
            self._done = len(part)
            piece.file.write(part, piece.start)
            self._desk.landed(Piece(piece.file, piece.start, piece.start + len(part)))
            self._desk.follow(piece.file)
            self._held = []
        self._write_gathered(piece)
        self._note(piece)
        rest = [Piece(piece.file, piece.start + self._done, piece.end), *self._pieces[self._at + 1 :]]
        self._at = len(self._pieces)
        self._desk.give_back(rest, alone=alone)

    def _put(self, piece: Piece, part: memoryview) -> memoryview:
        """Write bytes of a large file, or gather them into a block; return those that were taken."""
        at = piece.start + self._done + self._gathered
        gathering = self._gathering
        if gathering is None or (not gathering.size and (at % BLOCK_BYTES or piece.end - at < BLOCK_BYTES)):
            part = part[: BLOCK_BYTES - at % BLOCK_BYTES] if gathering is not None else part
            piece.file.write(part, at)
            self._came(piece, len(part))
            return part
        part = part[: BLOCK_BYTES - gathering.size]
        gathering.add(part)
        if gathering.whole:
            start = at - at % BLOCK_BYTES
            piece.file.write_past_cache(gathering.block, start)
            self._desk.fresh.offer(piece.file.number, start, gathering.clear())
            self._came(piece, BLOCK_BYTES)
        return part

    def _write_gathered(self, piece: Piece) -> None:
        """Write what came of a block that will not be completed."""
        if self._gathered:
            assert self._gathering is not None
            block = self._gathering.block
            piece.file.write(block, piece.start + self._done)
            self._gathering.clear()
            self._came(piece, len(block))

    @property
    def _gathered(self) -> int:
        return self._gathering.size if self._gathering is not None else 0

    def _came(self, piece: Piece, count: int) -> None:
        start = piece.start + self._done
        self._desk.landed(Piece(piece.file, start, start + count))
        self._done += count

    def _missing(self, piece: Piece) -> int:
        return piece.end - piece.start - self._done - self._gathered + (_SUM_BYTES if piece.file.sealed else 0)

    def _finish(self, piece: Piece) -> None:
        if self._held:
            content, told = self._held[0] if len(self._held) == 1 else memoryview(b"".join(self._held)), ""
            if piece.file.sealed:
                content, told = content[:-_SUM_BYTES], content[-_SUM_BYTES:].hex()
                self.sum_bytes += _SUM_BYTES
            self._write_small(piece.file, content)
            self._held = []
            self._whole.append(piece.file)
            if len(self._whole) >= _NOTED_TOGETHER:
                self._note_whole()
            self._desk.came_whole(piece.file, sha256(content).hexdigest(), told)
        else:
            self._write_gathered(piece)  # a range may have been cut within a block
            self._note(piece)
            if piece.file.small:
                self._desk.follow(piece.file)
        self._at += 1
        self._done = self._noted = 0
        if self.full:
            self._note_whole()

    def _write_small(self, file: Coming, content: memoryview) -> None:
        fd = self._folder.create(file.target)
        try:
            write_all(fd, content)
        finally:
            os.close(fd)

    def _note_whole(self) -> None:
        if self._whole:
            self._desk.arrivals.note_many([(file.key, 0, file.bytes) for file in self._whole])
            self._whole = []

    def _note(self, piece: Piece) -> None:
        if self._done > self._noted:
            self._desk.arrivals.note(piece.file.key, piece.start + self._noted, piece.start + self._done)
            self._noted = self._done


def _at_one_go(piece: Piece) -> bool:
    return piece.file.small and piece.start == 0 and piece.end == piece.file.bytes
