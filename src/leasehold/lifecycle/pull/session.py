"""One pull from start to end: list, sums and bytes in parallel, then everything verified."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from leasehold.errors import LinkError, VerifyError
from leasehold.kit.text.safe_text import one_line
from leasehold.lifecycle.pull.files.arrivals import Arrivals
from leasehold.lifecycle.pull.files.incoming_file import Coming
from leasehold.lifecycle.pull.files.local_copies import AtHome
from leasehold.model.run.note import Note, Report
from leasehold.model.values.units import say_bytes
from leasehold.transport.contract import FAR_S

from .flush import Flushing
from .hasher import Hasher
from .list_reader import (
    Anything,
    Asked,
    Intake,
    LeftOut,
    ListPiece,
    Parts,
    Place,
    Roster,
    Unpacking,
    drop_changed,
    forget_marks,
    left_out_of,
    read_pieces,
)
from .rate import Pace
from .report_digests import Telling
from .scheduler import Desk
from .streams import Streams, Way, unwritable

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import RunSeen
    from leasehold.platforms.contract import Engine
    from leasehold.platforms.engine_parts import Chart


_GARBAGE = 100_000
_SURELY_FAR_S = 0.06


@dataclass(frozen=True)
class Pulled:
    """The result of a pull: the manifest's own bytes, and the sum of every file that was verified on arrival."""

    manifest: bytes
    sums: dict[str, str]
    files: list[Coming]
    unlisted: tuple[LeftOut, ...] = ()

    @property
    def total_bytes(self) -> int:
        """Return the total bytes."""
        return sum(file.bytes for file in self.files)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Return what is on the box and did not come."""
        skipped = [
            LeftOut(file.cell, file.path, file.why or "it changed meanwhile") for file in self.files if file.skipped
        ]
        return (*self.unlisted, *(LeftOut(one.cell, one.path, one.why or "it changed meanwhile") for one in skipped))

    @property
    def home_names(self) -> dict[str, str]:
        """Return the files that have another name here than on the box, as cell/path."""
        return {file.key: f"{file.cell}/{file.name}" for file in self.files if file.name != file.path}


@dataclass(frozen=True)
class Begun:
    """A requested chart; the round trip time is measured meanwhile."""

    talk: Chart
    parts: Parts
    seen: RunSeen  # the run's state, if that was requested too
    measuring: threading.Thread
    measured: list[float]


@dataclass(frozen=True)
class Opened:
    """A chart whose list has begun: its first piece, if anything is listed, the others as they come, and the talk."""

    first: ListPiece | None
    more: Iterator[ListPiece]
    talk: Chart
    parts: Parts  # what follows the list
    round_trip_s: float
    told: dict[str, Any] = field(default_factory=dict)  # what the box says at the end of the list

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Return what the box does not list, and why; complete with the list."""
        return tuple(left_out_of(self.told))


def open_chart(engine: Engine, asked: Asked, roster: Roster | None = None) -> Opened:
    """Request the chart and read the beginning of its list."""
    return open_list(begin_chart(engine, asked), roster)


def begin_chart(engine: Engine, asked: Asked, *, look: bool = False) -> Begun:
    """Request the chart; with look, also request the run's state in the same message, and wait for that."""
    measured: list[float] = []
    measuring = threading.Thread(target=lambda: measured.append(_round_trip_s(engine)), daemon=True)
    measuring.start()
    if asked.live is not None:
        wish = {"patterns": asked.patterns, "quiet_s": asked.quiet_s, **asked.live}
        talk: Chart = engine.ranges.live_chart(asked.run, asked.cells, wish)
    else:
        talk = engine.ranges.chart(asked.run, asked.cells, asked.patterns, asked.quiet_s, look=look)
    parts = iter(talk)
    seen = _seen(next(parts, {})) if look else cast("RunSeen", {})
    return Begun(talk, parts, seen, measuring, measured)


def open_list(begun: Begun, roster: Roster | None = None) -> Opened:
    """Read the beginning of a chart's list."""
    told: dict[str, Any] = {}
    pieces = read_pieces(begun.parts, roster or Anything(), told)
    try:
        first = next(pieces, None)
    except VerifyError:
        begun.talk.leave()
        raise
    begun.measuring.join()
    round_trip_s = begun.measured[0] if begun.measured else 0.0  # a lost link is reported by the code that needs it
    return Opened(first, pieces, begun.talk, begun.parts, round_trip_s, told)


def _seen(part: dict[str, Any] | bytes) -> RunSeen:
    found = part.get("seen") if isinstance(part, dict) else None
    if not isinstance(found, dict):
        raise LinkError("link.strange", "the box broke the protocol: it does not say how the run stands")
    return cast("RunSeen", found)


def _round_trip_s(engine: Engine) -> float:
    """Measure the round trip time; a near box that is busy would seem far, so it is measured again."""
    found = engine.round_trip_s()
    for _ in range(2):
        if FAR_S <= found < _SURELY_FAR_S:
            found = min(found, engine.round_trip_s())
    return found


def pull(engine: Engine, opened: Opened, place: Place, way: Way, pace: Pace, report: Report) -> Pulled:
    """Bring every listed file into the place and verify it; continue from what is already there."""
    often = gc.get_threshold()
    gc.set_threshold(_GARBAGE)  # objects made here live to the end; garbage collection would cost a tenth of the time
    try:
        return _pull(engine, opened, place, way, pace, report)
    except OSError as error:
        raise unwritable(error) from None
    finally:
        gc.set_threshold(*often)


def _pull(engine: Engine, opened: Opened, place: Place, way: Way, pace: Pace, report: Report) -> Pulled:
    folder = place.folder
    folder.mkdir(parents=True, exist_ok=True)
    resumes = (folder / "cells").is_dir()
    pieces = [opened.first] if opened.first else []
    try:
        if resumes:
            pieces += opened.more  # files no longer listed must go before anything comes
            drop_changed(folder, pieces)
        else:
            forget_marks(folder)  # of files that a person has deleted
        arrivals = Arrivals(folder)
        desk = Desk(arrivals, AtHome(place.roofs, way.run))
        intake = Intake(place, desk, resumes=resumes)
        try:
            for piece in pieces:
                intake.add(piece)
            if resumes:
                intake.complete()
            manifest = _run(engine, desk, _Chart(opened, intake, desk), Streams(desk, way, pace, report))
        finally:
            intake.close()
            arrivals.close()
            for file in desk.files:
                if not file.sealed:  # those are written in one call
                    file.close()
    finally:
        opened.talk.leave()
    kept = [file for file in desk.files if not file.skipped]
    count, size = len(kept), sum(file.bytes for file in kept)
    text = f"pulled {count} {'file' if count == 1 else 'files'}, {say_bytes(size)}"
    more = f"; {say_bytes(pace.fetched_bytes)} over the wire" if pace.fetched_bytes != size else ""
    report(Note("pulled", text + more, {"files": count, "bytes": size, "fetched_bytes": pace.fetched_bytes}))
    sums = {file.key: file.sha256 for file in kept}
    return Pulled(manifest, sums, desk.files, opened.left_out)


def _run(engine: Engine, desk: Desk, chart: _Chart, streams: Streams) -> bytes:
    reader = threading.Thread(target=chart.read, daemon=True, name="chart")
    reader.start()
    hasher = Hasher(desk)
    try:
        telling, flushing = Telling(desk, chart.talk), Flushing(desk)
        streams.each_moment = [telling.step, flushing.step]
        streams.run(engine)
        telling.rest()
        flushing.rest()  # while the box writes its manifest
        reader.join()
        if (failed := desk.failure or desk.lost) is not None:
            raise failed
    finally:
        desk.close()
        hasher.join()
    return chart.manifest.whole()


class _Chart:
    """Reads the box's messages about its files: the rest of the list, sums as they are computed, and the manifest."""

    def __init__(self, opened: Opened, intake: Intake, desk: Desk) -> None:
        self.talk = opened.talk
        self.manifest = Unpacking("manifest")
        self._opened = opened
        self._intake = intake
        self._desk = desk

    def read(self) -> None:
        """Read it to its end; pass errors to all who wait at the desk."""
        desk = self._desk
        try:
            self._read()
        except (KeyError, IndexError, TypeError, ValueError) as error:
            desk.fail(LinkError("link.strange", f"the box broke the protocol: {type(error).__name__} in its chart"))
        except LinkError as error:
            desk.lose(error)
        except OSError as error:
            desk.fail(unwritable(error))
        except Exception as error:  # noqa: BLE001 - a thread's boundary: whoever waits must hear of it
            desk.fail(error)

    def _read(self) -> None:
        desk = self._desk
        for piece in self._opened.more:
            self._intake.add(piece)
        self._intake.complete()
        desk.ask_sums = self.talk.want_sums
        desk.ask_sums(desk.to_sum)
        desk.all_listed()
        for part in self._opened.parts:
            if isinstance(part, bytes):
                self.manifest.add(part)
                if self.manifest.over:
                    return  # the box's remaining work is only for its own use
                continue
            if "file" in part:
                desk.hashed(int(part["file"]), int(part["upto"]), part["zeros"], part["copies"])
            for number, sha256, *why in part.get("sums", ()):
                desk.summed(int(number), str(sha256), one_line(str(why[0])) if why else "")
