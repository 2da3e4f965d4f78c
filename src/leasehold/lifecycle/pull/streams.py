"""Connections that carry a pull: one at first, more where the round trip is long or each of them adds speed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from leasehold.errors import BoxError, HomeError, LinkError
from leasehold.kit.wire.frames import BLOCK_BYTES, CHUNK_BYTES
from leasehold.lifecycle.pull.files.block_buffer import Gathering
from leasehold.lifecycle.pull.files.incoming_file import Coming
from leasehold.lifecycle.pull.files.local_copies import link_equal
from leasehold.model.run.note import Note, Report
from leasehold.transport.contract import FAR_S

from .compression import Packing
from .connections import AHEAD
from .in_flight import Underway
from .jobs import Batch, Copy, Mend, Piece, Spare, Take
from .range_writer import Landing
from .rate import Limiter, Pace
from .scheduler import Desk, different

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine


_MOST_STREAMS = 16
_FIRST_WAVE = 1 + AHEAD
_QUICK_BYTES_PER_S = 2e6  # of one stream: a block of a megabyte in half a second
_THREADS_A_STREAM = 2  # while one block is written, the next is in flight
_MOST_BATCH_BYTES = 8 << 20
_UNTRIED_BYTES_PER_S = 2e6  # assumed for a far box
_NEAR_BYTES_PER_S = 1e9
_BATCH_S = 0.75
_SPARE_S = 0.05
_ROUND_TRIPS = 1.5  # a smaller request, with the next one in flight, leaves a far stream idle
_JOIN_S = 5.0
_MOMENT_S = 0.1
_SOON_S = 0.02
_LOOK_EVERY_S = 1.5
_LOOK_AFAR_EVERY_S = 5.0  # TCP takes a while to find the link's capacity


@dataclass(frozen=True)
class Way:
    """The route to a box: the run, one more connection on demand, the round trip time, the rate limit."""

    run: str
    more: Callable[[], Engine] | None = None
    round_trip_s: float = 0.0
    limit_bytes_per_s: float = 0.0
    lenient: bool = False  # leave out files that change meanwhile
    view: str = ""  # of the box's stable view, where the files come from one


class Streams:
    """Runs a desk's work over connections; run() returns when everything is home, or raises the reason why not."""

    def __init__(self, desk: Desk, way: Way, pace: Pace, report: Report) -> None:
        self._desk = desk
        self._way = way
        self._pace = pace
        self._report = report
        self._limiter = Limiter(way.limit_bytes_per_s)
        self._lock = threading.Lock()
        self._alive: dict[int, int] = {}  # threads by stream
        self._cut: set[int] = set()  # streams whose connection is dead
        self._extra: list[Engine] = []
        self._threads: list[threading.Thread] = []
        self._opened = 0
        self._opening = 0
        self._lost: LinkError | None = None
        self._no_more = way.more is None or bool(way.limit_bytes_per_s)
        self._far = way.round_trip_s >= FAR_S
        self._looked = (time.monotonic(), 0, 0.0)  # when, with how many streams, at which rate
        self._wanted = 1
        self.each_moment: list[Callable[[], None]] = []  # called about ten times a second
        self._packing: dict[int, Packing] = {}  # of each far stream
        self._underway = Underway(_UNTRIED_BYTES_PER_S if self._far else _NEAR_BYTES_PER_S, way.round_trip_s)

    def run(self, engine: Engine) -> None:
        """Fetch until the desk is complete."""
        desk = self._desk
        self._start(engine)
        try:
            while not desk.complete:
                soon = self._far and self._wanted == 1 and not self._no_more  # others are opened as soon as that pays
                desk.over.wait(_SOON_S if soon else _MOMENT_S)
                if desk.failure is not None:
                    raise desk.failure
                if not self._alive and not self._opening and not desk.complete:
                    raise self._lost or desk.lost or LinkError("link.lost", "every connection to the box ended")
                self._pace.tick(desk.home_bytes, desk.total_bytes, len(self._alive))
                for step in self.each_moment:
                    step()
                if not desk.over.is_set() and desk.lost is None:
                    self._widen()
        finally:
            desk.close()
            self._close_extra()
            self._join(engine)

    # ------------------------------------------------------------ connections

    def _start(self, engine: Engine) -> None:
        with self._lock:
            number = self._opened
            self._opened += 1
            self._alive[number] = _THREADS_A_STREAM
            threads = [
                threading.Thread(target=self._work, args=(engine, number), daemon=True)
                for _ in range(_THREADS_A_STREAM)
            ]
            self._threads += threads
        for thread in threads:
            thread.start()

    def _widen(self) -> None:
        """Open more connections while that pays."""
        if self._no_more or self._opening:
            return
        missing = self._desk.missing_bytes
        if not self._desk.listed and missing < 2 * BLOCK_BYTES * _FIRST_WAVE:
            return  # the list will tell the total in a moment
        self._wanted = max(self._wanted, self._wish())
        useful = min(self._wanted, max(1, missing // (2 * BLOCK_BYTES)))
        for _ in range(int(useful) - len(self._alive)):
            with self._lock:
                self._opening += 1
            threading.Thread(target=self._open, daemon=True).start()

    def _wish(self) -> int:
        if self._far and self._wanted < _FIRST_WAVE:
            return _FIRST_WAVE
        now = time.monotonic()
        then, streams, rate_then = self._looked
        near = not self._far
        if now - then < (_LOOK_EVERY_S if near else _LOOK_AFAR_EVERY_S):
            return self._wanted
        rate, alive = self._pace.rate, len(self._alive)
        self._looked = (now, alive, rate)
        most = min(4, (os.cpu_count() or 1) // 2) if near else _MOST_STREAMS
        soon_done = self._desk.missing_bytes < 10 * rate  # a handshake over a long way takes seconds
        grew = alive == streams or rate > 1.15 * rate_then  # the last step paid, or there was none
        if soon_done or not grew or alive < self._wanted:
            return self._wanted
        return min(most, max(self._wanted, alive + (1 if near else 4)))

    def _open(self) -> None:
        more = self._way.more
        assert more is not None
        try:
            engine = more()
        except (LinkError, BoxError) as error:
            with self._lock:
                told, self._no_more = self._no_more, True
            if not told:
                self._report(
                    Note("fewer_streams", f"no further connection ({error.message}); going on with those there are")
                )
        except Exception as error:  # noqa: BLE001 - a thread's boundary: whoever waits must hear of it
            self._desk.fail(error)
        else:
            with self._lock:
                self._extra.append(engine)
            if self._desk.closed:
                engine.close()
            else:
                self._start(engine)
        finally:
            with self._lock:
                self._opening -= 1

    def _join(self, engine: Engine) -> None:
        """Wait for every thread: none may write into a file that is already verified."""
        deadline = time.monotonic() + _JOIN_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            engine.close()  # a box that went silent in the middle of an answer
            for thread in self._threads:
                thread.join(_JOIN_S)

    def _close_extra(self) -> None:
        with self._lock:
            extra, self._extra = self._extra, []
        threads = [threading.Thread(target=engine.close, daemon=True) for engine in extra]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(3)

    # ------------------------------------------------------------ work

    def _work(self, engine: Engine, number: int) -> None:
        desk = self._desk
        gathering = Gathering()
        try:
            while (job := desk.take(self._batch_bytes(number), _SPARE_S if self._far else 0.0)) is not None:
                if number in self._cut:  # its other thread has found that out
                    desk.take_back(job)
                    return
                match job:
                    case Batch():
                        self._fetch(engine, self._landing(job, gathering, number), job, number)
                    case Spare():
                        self._relieve(engine, gathering, number)
                    case Copy():
                        _copy(desk, job)
                    case Take():
                        _take(desk, job)
                    case Mend():
                        self._mend(engine, job.file)
        except LinkError as error:
            self._lost = error
        except OSError as error:
            desk.fail(unwritable(error))
        except Exception as error:  # noqa: BLE001 - a thread's boundary: whoever waits must hear of it
            desk.fail(error)
        finally:
            self._ended(number)

    def _ended(self, number: int) -> None:
        with self._lock:
            self._alive[number] -= 1
            if self._alive[number] == 0:
                del self._alive[number]

    def _relieve(self, engine: Engine, gathering: Gathering, number: int) -> None:
        """Take over part of what a slower stream was asked for, so that the pull does not wait for the slowest."""
        pieces = self._underway.relieve(number)
        if pieces:
            batch = Batch(pieces)
            self._fetch(engine, self._landing(batch, gathering, number), batch, number)

    def _batch_bytes(self, number: int) -> int:
        """Return a stream's next request size, smaller towards the end, so that no slow stream has a long rest."""
        share = self._desk.missing_bytes // (2 * max(1, len(self._alive)) * _THREADS_A_STREAM)
        speed = self._underway.speed(number)
        share = max(share, int(_ROUND_TRIPS * self._way.round_trip_s * speed)) if self._far else share
        size = int(max(CHUNK_BYTES if self._far else BLOCK_BYTES, min(_MOST_BATCH_BYTES, share, speed * _BATCH_S)))
        limit = self._way.limit_bytes_per_s
        return min(size, max(64 << 10, int(limit))) if limit else size

    def _landing(self, batch: Batch, gathering: Gathering, number: int) -> Landing:
        """Let whole blocks bypass the page cache, unless one takes so long that a kill would cost much."""
        quick = self._underway.speed(number) > _QUICK_BYTES_PER_S
        return Landing(self._desk, batch.pieces, gathering if quick and not self._way.limit_bytes_per_s else None)

    def _fetch(self, engine: Engine, landing: Landing, batch: Batch, number: int) -> None:
        items = [
            [piece.file.cell, piece.file.path, piece.start, piece.end - piece.start, piece.file.mtime_ns]
            + [True] * piece.file.sealed
            for piece in batch.pieces
        ]
        limit, far, view = self._way.limit_bytes_per_s, self._far, self._way.view
        packing = self._packing.setdefault(number, Packing(engine.heard_bytes)) if far else None
        pack = packing is not None and packing.wanted(engine.heard_bytes)
        frame_bytes = min(CHUNK_BYTES, max(8 << 10, int(limit / 8))) if limit else CHUNK_BYTES // (4 if far else 1)
        self._underway.begin(number, landing)
        try:
            came = engine.ranges.fetch(
                self._way.run, items, pack=pack, frame_bytes=frame_bytes, **({"view": view} if view else {})
            )
            for chunk in came:
                if self._desk.closed:
                    break
                self._limiter.pass_through(len(chunk))
                self._pace.add(len(chunk))
                self._underway.heard(number)
                landing.add(chunk)
                if landing.full:
                    break
        except BoxError as error:
            landing.leave(alone=True)
            self._refused(error, batch)
        except LinkError:
            self._cut.add(number)
            raise
        finally:
            short = not landing.full
            landing.leave()
            self._pace.add(-landing.sum_bytes)
            self._underway.end(number, landing)
            if packing is not None:
                packing.came(landing.came_bytes)
        if short and len({piece.file for piece in batch.pieces}) == 1:
            self._strike(batch.pieces[0].file)
        elif short:
            for piece in batch.pieces:
                piece.file.alone = True

    def _refused(self, error: BoxError, batch: Batch) -> None:
        """Handle a batch that the box refused: a file that was alone in its batch is the cause."""
        files = {piece.file for piece in batch.pieces}
        if len(files) > 1:
            return
        if self._way.lenient:
            self._desk.skip(files.pop(), error.message)
            return
        raise error

    def _strike(self, file: Coming) -> None:
        """Count a short answer: a box that sends less than it promised is asked a few times, not for ever."""
        file.strikes += 1
        if file.strikes >= 3:
            self._desk.fail(different(file))

    def _mend(self, engine: Engine, file: Coming) -> None:
        """Find the blocks that differ from the box's, and request only those again; if none differs, the whole file."""
        view = {"view": self._way.view} if self._way.view else {}
        theirs = engine.ranges.sums(self._way.run, file.cell, file.path, **view)
        bad: list[tuple[int, int]] = []
        for number, start in enumerate(range(0, file.bytes, BLOCK_BYTES)):
            end = min(start + BLOCK_BYTES, file.bytes)
            ours = sha256(file.read(end - start, start)).hexdigest()
            if number >= len(theirs) or theirs[number] != ours:
                bad.append((start, end))
        self._report(
            Note("mending", f"{file.key}: {len(bad) or 'all'} blocks differ from the box's; fetching them again")
        )
        file.close()
        self._desk.drop(file, bad or [(0, file.bytes)])


def unwritable(error: OSError) -> HomeError:
    """Return the error for a home without room, or without permission, for the data."""
    hint = "is the disk full? Free some space, or choose another folder with --results DIR; what came is kept"
    return HomeError("home.unwritable", f"what came cannot be written: {error}", hint=hint)


def _copy(desk: Desk, job: Copy) -> None:
    """Copy a range from a file that has it; use a separate descriptor, since the source may be verified and closed."""
    length, done = job.piece.end - job.piece.start, 0
    with open(job.source.target, "rb", buffering=0) as source:
        source.seek(job.source_start)
        while done < length and (block := source.read(min(BLOCK_BYTES, length - done))):
            job.piece.file.write(block, job.piece.start + done)
            done += len(block)
    desk.arrivals.note(job.piece.file.key, job.piece.start, job.piece.end)
    desk.landed(job.piece)
    desk.follow(job.piece.file)


def _take(desk: Desk, job: Take) -> None:
    file = job.file
    whole = Piece(file, 0, file.bytes)
    if not link_equal(job.places, file.sha256, file.target):
        desk.give_back([whole])
        return
    desk.arrivals.note(file.key, 0, file.bytes)
    desk.landed(whole)
    desk.prove(file, file.sha256)
