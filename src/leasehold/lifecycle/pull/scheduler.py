"""The desk schedules a pull: which bytes to request next, which are here, and which files are verified."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from leasehold.errors import LinkError, VerifyError
from leasehold.kit.files.manifest import TINY_BYTES
from leasehold.kit.wire.frames import BLOCK_BYTES
from leasehold.lifecycle.pull.files.arrivals import Arrivals
from leasehold.lifecycle.pull.files.block_buffer import Fresh
from leasehold.lifecycle.pull.files.incoming_file import Coming
from leasehold.lifecycle.pull.files.local_copies import AtHome

from .jobs import Batch, Copy, Job, Mend, Piece, Spare, Take

_ITEMS_A_BATCH = 400
_COPIES_LOOKED_AT = 64
_STRIKES = 2


class Desk:
    """Shared by the chart's reader, the streams and the hasher; every method may be called from any thread."""

    def __init__(self, arrivals: Arrivals, at_home: AtHome) -> None:
        self.files: list[Coming] = []
        self.listed = False  # the list is complete
        self.arrivals = arrivals
        self.fresh = Fresh()
        self.failure: BaseException | None = None
        self.lost: LinkError | None = None
        self.closed = False
        self.ask_sums: Callable[[list[int]], None] = lambda numbers: None
        self.lock = threading.RLock()
        self.work = threading.Condition(self.lock)  # there may be work to take
        self.bytes_came = threading.Condition(self.lock)  # there may be something to hash
        self.over = threading.Event()  # complete, failed or closed
        self._at_home = at_home
        self._open: dict[int, Coming] = {}
        self._by_sum: dict[str, Coming] = {}
        self._copies: list[Copy] = []
        self._jobs: list[Job] = []
        self.to_hash: list[Coming] = []
        self._unproved = 0
        self.home_bytes = 0
        self.total_bytes = 0
        self.absent = 0  # files of which nothing is here
        self._sizes: dict[int, int] = {}  # how many files have each

    def add(self, files: list[Coming]) -> None:
        """Add files to come, numbered after the existing ones."""
        with self.lock:
            for file in files:
                self._sizes[file.bytes] = self._sizes.get(file.bytes, 0) + 1
            for file in files:
                self._take_in(file, file.home.total if file.home else 0)
            self._unproved += len(files)
            self.total_bytes += sum(file.bytes for file in files)
            self.files += files
            self.work.notify_all()

    def _take_in(self, file: Coming, here: int) -> None:
        elsewhere = not here and self._at_home.may_have(file.bytes)
        file.sealed = file.bytes <= TINY_BYTES and not here and not elsewhere
        file.held = elsewhere or (not here and not file.sealed and self._sizes[file.bytes] > 1)
        file.upto = file.bytes if file.sealed else 0
        self._open[file.number] = file
        if not file.small or here:
            self.to_hash.append(file)
        self.absent += not here
        if here:
            self.home_bytes += here
            for span in file.home:
                file.asked.add(*span)

    def all_listed(self) -> None:
        """Mark the list as complete."""
        with self.lock:
            self.listed = True
            if self.complete:
                self._end()

    @property
    def complete(self) -> bool:
        """Return whether every file is listed, and either verified at home or left out."""
        return self.listed and self._unproved == 0

    @property
    def missing_bytes(self) -> int:
        """Return how many bytes are not here."""
        return self.total_bytes - self.home_bytes

    @property
    def to_sum(self) -> list[int]:
        """Return the small files that the box must sum, since their sums will not come with their bytes."""
        return [file.number for file in self.files if file.bytes <= TINY_BYTES and not file.sealed]

    def hashed(self, number: int, upto: int, zeros: Iterable[int], copies: Iterable[Any]) -> None:
        """Record how far the box has hashed a file; some of its blocks are zeros, or equal earlier ones."""
        with self.lock:
            file = self.files[number]
            for block in zeros:
                piece = self._block(file, int(block))
                self._arrived(file, piece.start, piece.end)
                self.arrivals.note(file.key, piece.start, piece.end)
            for block, other, at in copies:
                piece = self._block(file, int(block))
                source = self.files[int(other)]
                start = int(at) * BLOCK_BYTES
                fits = start >= 0 and start + piece.end - piece.start <= source.bytes
                if fits and not file.asked.covers(piece.start, piece.end):
                    file.asked.add(piece.start, piece.end)
                    self._copies.append(Copy(piece, source, start))
            file.upto = min(int(upto), file.bytes)
            self.work.notify_all()
            self.bytes_came.notify()

    def summed(self, number: int, sha256: str, why: str = "") -> None:
        """Record that the box has hashed a whole file; an empty sum leaves the file out, and why."""
        with self.lock:
            file = self.files[number]
            if not sha256:
                return self._skip(file, why)
            file.sha256, file.upto = sha256, file.bytes
            first = self._by_sum.setdefault(sha256, file)
            places = self._at_home.places(sha256, file.bytes) if file.held else []
            if file.held and first is not file and first.bytes == file.bytes:
                file.asked.add(0, file.bytes)
                self._copies.append(Copy(Piece(file, 0, file.bytes), first, 0))
            elif places:
                file.asked.add(0, file.bytes)
                self._jobs.append(Take(file, places))
            file.held = False
            self.work.notify()
            if not file.small or file.home.total:
                self.bytes_came.notify()
        return None

    def take(self, batch_bytes: int, spare_s: float = 0.0) -> Job | None:
        """Hand out work, waiting for some; None when there will be no more.

        With spare_s: a caller that has waited this long while others bring the rest gets Spare.
        """
        with self.lock:
            while not (self.closed or self.complete or self.failure or self.lost):
                job = self._next(batch_bytes)
                if job is not None:
                    return job
                self.work.wait(spare_s or 0.5)
                if spare_s and self.listed and not (self._open or self._copies or self._jobs):
                    return Spare()
        return None

    def came_whole(self, file: Coming, sha256: str, told: str = "") -> None:
        """Record that a small file is written and hashed; told is the sum that came with it."""
        with self.lock:
            file.sha256 = file.sha256 or told
            self.home_bytes += file.bytes - (file.home.total if file.home else 0)
            self.absent -= not file.home
            file.home.cover(file.bytes)
            if self._copies:
                self.work.notify()
            self.prove(file, sha256)

    def landed(self, piece: Piece) -> None:
        """Record that a range is in its file."""
        with self.lock:
            self._arrived(piece.file, piece.start, piece.end)
            self.bytes_came.notify()
            if self._copies:
                self.work.notify()

    def follow(self, file: Coming) -> None:
        """Make the hasher read a file that did not arrive in one piece."""
        with self.lock:
            if file not in self.to_hash:
                self.to_hash.append(file)
            self.bytes_came.notify()

    def unseal(self, file: Coming) -> None:
        """Record that a small file came in part: the rest is requested alone, and the box must sum the file."""
        with self.lock:
            was, file.sealed = file.sealed, False
        if was:
            self.ask_sums([file.number])

    def give_back(self, pieces: Iterable[Piece], *, alone: bool = False) -> None:
        """Return ranges that did not come; they are requested again."""
        with self.lock:
            for piece in pieces:
                piece.file.asked.remove(piece.start, piece.end)
                for start, end in piece.file.home:
                    piece.file.asked.add(start, end)
                piece.file.alone = piece.file.alone or alone
                self._open[piece.file.number] = piece.file
            self.work.notify_all()

    def take_back(self, job: Job) -> None:
        """Return work that could not be done; another stream will take it."""
        if isinstance(job, Batch):
            return self.give_back(job.pieces)
        if isinstance(job, Spare):
            return None
        with self.lock:
            self._jobs.append(job)
            self.work.notify()
        return None

    def prove(self, file: Coming, sha256: str) -> None:
        """Compare a whole file's sum with the box's; mend the first difference, refuse the second."""
        with self.lock:
            if sha256 == file.sha256:
                file.proved = True
                self._one_less()
            elif file.strikes + 1 >= _STRIKES:
                self.fail(different(file))
            else:
                file.strikes += 1
                file.mending = True
                self._jobs.append(Mend(file))
                self.work.notify()

    def drop(self, file: Coming, spans: Iterable[tuple[int, int]]) -> None:
        """Drop ranges that differ from the box's: they must come again."""
        self.fresh.forget(file.number)
        with self.lock:
            was_here = bool(file.home)
            for start, end in spans:
                before = file.home.total
                file.home.remove(start, end)
                file.asked.remove(start, end)
                self.home_bytes -= before - file.home.total
            self.absent += was_here and not file.home
            file.mending = False
            self._open[file.number] = file
            self.work.notify()

    def skip(self, file: Coming, why: str = "") -> None:
        """Leave a file out."""
        with self.lock:
            self._skip(file, why)

    def fail(self, error: BaseException) -> None:
        """End the pull with an error; the first error counts."""
        with self.lock:
            self.failure = self.failure or error
            self._end()

    def lose(self, error: LinkError) -> None:
        """Record the loss of the chart's connection: hand out no more work, but let arrived data be written."""
        with self.lock:
            self.lost = self.lost or error
            self.work.notify_all()

    def close(self) -> None:
        """Hand out no more work."""
        with self.lock:
            self.closed = True
            self._end()

    def _next(self, batch_bytes: int) -> Job | None:
        if self._jobs:
            return self._jobs.pop(0)
        for index, copy in enumerate(self._copies[:_COPIES_LOOKED_AT]):
            length = copy.piece.end - copy.piece.start
            if copy.source.home.covers(copy.source_start, copy.source_start + length):
                return self._copies.pop(index)
        pieces: list[Piece] = []
        for file in list(self._open.values()):
            if file.held:
                continue
            if file.alone and pieces:
                continue
            batch_bytes -= self._ask(file, batch_bytes, pieces)
            if batch_bytes <= 0 or len(pieces) >= _ITEMS_A_BATCH or (file.alone and pieces):
                break
        return Batch(pieces) if pieces else None

    def _ask(self, file: Coming, most: int, pieces: list[Piece]) -> int:
        """Request the unrequested part of a file, up to a limit; return its size."""
        if file.sealed and not file.asked:
            pieces.append(Piece(file, 0, file.bytes))
            file.asked.cover(file.bytes)
            self._open.pop(file.number, None)
            return file.bytes
        taken = 0
        for start, end in list(file.asked.gaps(file.upto)):
            if taken >= most or len(pieces) >= _ITEMS_A_BATCH:
                return taken
            end = end if file.sealed else min(end, start + most - taken)
            pieces.append(Piece(file, start, end))
            file.asked.add(start, end)
            taken += end - start
        if file.asked.covers(0, file.bytes):
            self._open.pop(file.number, None)
        return taken

    def _arrived(self, file: Coming, start: int, end: int) -> None:
        before = file.home.total
        self.absent -= not before and start < end
        file.home.add(start, end)
        file.asked.add(start, end)
        self.home_bytes += file.home.total - before

    def _block(self, file: Coming, block: int) -> Piece:
        start = block * BLOCK_BYTES
        if not 0 <= start < file.bytes:
            raise VerifyError("artifact.bad_manifest", f"the box names block {block} of {file.key}, which has none")
        return Piece(file, start, min(start + BLOCK_BYTES, file.bytes))

    def _skip(self, file: Coming, why: str) -> None:
        if not file.skipped and not file.proved:
            file.skipped, file.why = True, why
            self.absent -= not file.home
            self.home_bytes -= file.home.total
            self.total_bytes -= file.bytes
            self._one_less()
            self._open.pop(file.number, None)
            self._copies = [copy for copy in self._copies if copy.piece.file is not file]
            for copy in [copy for copy in self._copies if copy.source is file]:
                self._copies.remove(copy)
                copy.piece.file.asked.remove(copy.piece.start, copy.piece.end)
                self._open[copy.piece.file.number] = copy.piece.file
        self.work.notify_all()

    def _one_less(self) -> None:
        self._unproved -= 1
        if self.complete:
            self._end()

    def _end(self) -> None:
        self.over.set()
        self.work.notify_all()
        self.bytes_came.notify_all()


def different(file: Coming) -> VerifyError:
    """Return the error for a file that does not match what the box sealed."""
    return VerifyError(
        "artifact.hash_differs",
        f"{file.key} arrived different from the box's manifest, twice",
        hint="is something on the box still writing it? lease pull again",
    )
