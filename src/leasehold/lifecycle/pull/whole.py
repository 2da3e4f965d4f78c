"""One pull from beginning to end: the list first, then sums and bytes side by side, then everything proved."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leasehold.errors import LinkError, VerifyError
from leasehold.kit import manifest as manifests
from leasehold.kit.atomic import read_json, write_json
from leasehold.kit.paths import UnsafePath, join_checked
from leasehold.model.note import Note, Report
from leasehold.model.units import say_bytes
from leasehold.platforms.engines.caretaker import CaretakerEngine, ChartTalk

from .arrivals import NAME as ARRIVALS
from .arrivals import Arrivals
from .coming import Coming
from .desk import Desk
from .hashing import Hasher
from .pace import Pace
from .reuse import AtHome
from .streams import Streams, Way, unwritable

LISTING = "listing.json"
_MOST_MANIFEST_BYTES = 1 << 30
_GARBAGE = 100_000
_TOLD_TOGETHER = 1000  # files
_TOLD_AHEAD = 32  # frames
_SYNC_EACH = 64  # files; beyond it one sync of everything is cheaper

Listing = dict[str, list[dict[str, Any]]]
Parts = Iterator[dict[str, Any] | bytes]


@dataclass(frozen=True)
class Pulled:
    """What came: the manifest's own bytes, and the sum of every file that was proved while it came."""

    manifest: bytes
    sums: dict[str, str]
    files: list[Coming]

    @property
    def total_bytes(self) -> int:
        """How much it is."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class Place:
    """Where a pull goes, and where else at home its files may lie already."""

    folder: Path
    roofs: tuple[Path, ...]
    check_room: Callable[[Path, int, int], None]  # folder, bytes and files that are still to come


@dataclass(frozen=True)
class Opened:
    """A chart whose list is read: the list, what else of it was read, and the talk that goes on."""

    listing: Listing
    talk: ChartTalk
    parts: Parts
    round_trip_s: float


def open_chart(engine: CaretakerEngine, run: str, cells: list[str], patterns: list[str], quiet_s: float) -> Opened:
    """Ask for the chart and read its list of files; how far the box is is measured meanwhile."""
    measured: list[float] = []
    measuring = threading.Thread(target=lambda: measured.append(engine.round_trip_s()), daemon=True)
    measuring.start()
    opened = _open(engine.chart(run, cells, patterns, quiet_s))
    measuring.join()
    return replace(opened, round_trip_s=measured[0] if measured else 0.0)  # a lost link is told by who needs it


def _open(talk: ChartTalk) -> Opened:
    parts = iter(talk)
    listed = _Unpacking("list of files")
    try:
        for part in parts:
            if not isinstance(part, bytes):
                break  # {listed}: what comes now are sums
            listed.add(part)
        pairs = json.loads(listed.whole() or b"[]")
        return Opened(manifests.parse_listing(pairs), talk, parts, 0.0)
    except (manifests.ManifestError, ValueError, RecursionError) as error:
        talk.leave()
        raise VerifyError("artifact.bad_manifest", f"the box's list of files cannot be trusted: {error}") from None


class _Unpacking:
    """Unpacks what an untrusted box packed, up to a bound."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._opener = zlib.decompressobj()
        self._size = 0
        self._parts: list[bytes] = []

    def add(self, packed: bytes) -> None:
        """Take more of it."""
        try:
            self._parts.append(self._opener.decompress(packed, _MOST_MANIFEST_BYTES))
        except zlib.error as error:
            raise VerifyError("artifact.bad_manifest", f"the box's {self._what} does not unpack: {error}") from None
        self._size += len(self._parts[-1])
        if self._size > _MOST_MANIFEST_BYTES or self._opener.unconsumed_tail:
            raise VerifyError("artifact.bad_manifest", f"the box's {self._what} does not end")

    def whole(self) -> bytes:
        """Return all of it."""
        return b"".join(self._parts)


def pull(engine: CaretakerEngine, opened: Opened, place: Place, way: Way, pace: Pace, report: Report) -> Pulled:
    """Bring every listed file into the place and prove it; what is there already is continued."""
    often = gc.get_threshold()
    gc.set_threshold(_GARBAGE)  # what is made here stays to the end; looking through it is a tenth of the time
    try:
        return _pull(engine, opened, place, way, pace, report)
    except OSError as error:
        raise unwritable(error) from None
    finally:
        gc.set_threshold(*often)


def _pull(engine: CaretakerEngine, opened: Opened, place: Place, way: Way, pace: Pace, report: Report) -> Pulled:
    listing = opened.listing
    place.folder.mkdir(parents=True, exist_ok=True)
    _drop_changed(place.folder, listing)
    arrivals = Arrivals(place.folder)
    try:
        files = _files(listing, place.folder, arrivals)
        missing = sum(file.bytes - file.home.total for file in files)
        place.check_room(place.folder, missing, sum(1 for file in files if not file.home.total))
        write_json(str(place.folder / LISTING), {"cells": listing}, durable=False)
        desk = Desk(files, arrivals, AtHome(place.roofs, way.run))
        manifest = _run(engine, desk, opened, Streams(desk, way, pace, report))
    finally:
        opened.talk.leave()
        arrivals.close()
        with contextlib.suppress(UnboundLocalError):
            for file in files:
                file.close()
    kept = [file for file in files if not file.skipped]
    count, size = len(kept), sum(file.bytes for file in kept)
    text = f"pulled {count} {'file' if count == 1 else 'files'}, {say_bytes(size)}"
    more = f"; {say_bytes(pace.fetched_bytes)} over the wire" if pace.fetched_bytes != size else ""
    report(Note("pulled", text + more, {"files": count, "bytes": size, "fetched_bytes": pace.fetched_bytes}))
    return Pulled(manifest, {file.key: file.sha256 for file in kept}, files)


def _run(engine: CaretakerEngine, desk: Desk, opened: Opened, streams: Streams) -> bytes:
    heard = _Unpacking("manifest")
    reader = threading.Thread(target=_read_chart, args=(opened.parts, desk, heard), daemon=True, name="chart")
    reader.start()
    hasher = Hasher(desk)
    try:
        desk.ask_sums = opened.talk.want_sums
        desk.ask_sums(desk.to_sum)
        telling = _Telling(desk, opened.talk)
        streams.each_moment = telling.step
        if desk.files:
            streams.run(engine)
        telling.rest()
        _make_durable([file for file in desk.files if not file.skipped])  # while the box writes its manifest
        reader.join()
        if (failed := desk.failure or desk.lost) is not None:
            raise failed
    finally:
        desk.close()
        hasher.join()
    return heard.whole()


class _Telling:
    """Tells the box what came while the rest is on its way: over a long way all of it at the end would take long."""

    def __init__(self, desk: Desk, talk: ChartTalk) -> None:
        self._desk = desk
        self._talk = talk
        self._files = 0  # that were told of
        self._frames = 0

    def step(self) -> None:
        """Tell of the next ones, if they are many; a box that is still hashing holds only so much for later."""
        if len(self._desk.files) - self._files < _TOLD_TOGETHER or self._frames >= _TOLD_AHEAD:
            return
        digests = self._desk.digests(self._files, settled=True)
        if len(digests) >= 32 * _TOLD_TOGETHER:
            self._files += len(digests) // 32
            self._frames += 1
            self._talk.tell(digests)

    def rest(self) -> None:
        """Tell the rest, and that this is all."""
        self._talk.seal(self._desk.digests(self._files))


def _read_chart(chart: Parts, desk: Desk, heard: _Unpacking) -> None:
    try:
        for part in chart:
            if isinstance(part, bytes):
                heard.add(part)
                continue
            if "file" in part:
                desk.hashed(int(part["file"]), int(part["upto"]), part["zeros"], part["copies"])
            for number, sha256 in part.get("sums", ()):
                desk.summed(int(number), str(sha256))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        desk.fail(LinkError("link.strange", f"the box broke the protocol: {type(error).__name__} in its chart"))
    except LinkError as error:
        desk.lose(error)
    except Exception as error:  # noqa: BLE001 - a thread's boundary: whoever waits must hear of it
        desk.fail(error)


def _files(listing: Listing, folder: Path, arrivals: Arrivals) -> list[Coming]:
    files: list[Coming] = []
    for cell, entries in listing.items():
        base = str(folder / "cells" / cell)
        some_are_here = os.path.isdir(base)
        for entry in entries:
            target = os.path.join(base, *entry["path"].split("/"))  # the list's paths are checked when it is read
            file = Coming(len(files), cell, entry["path"], entry["bytes"], entry["mtime_ns"], target)
            if some_are_here:
                _part_from_roof(target)
                file.home = arrivals.of(file.key, target, file.bytes)
            files.append(file)
    return files


def _part_from_roof(target: str) -> None:
    """Nothing is ever written through a hard link into an older copy: such a file is linked anew."""
    with contextlib.suppress(OSError):
        if os.lstat(target).st_nlink > 1:
            os.unlink(target)


def _drop_changed(folder: Path, listing: Listing) -> None:
    """Forget parts of files that are no longer listed, or not as they were."""
    kept = read_json(str(folder / LISTING)) or read_json(str(folder / "manifest.json")) or {}
    try:
        before = {
            (cell, entry["path"]): _identity(entry) for cell, entries in kept["cells"].items() for entry in entries
        }
    except (KeyError, TypeError, AttributeError):
        before = {}
    now = {(cell, entry["path"]): _identity(entry) for cell, entries in listing.items() for entry in entries}
    gone = [key for key, was in before.items() if now.get(key) != was]
    for cell, path in gone:
        with contextlib.suppress(UnsafePath, TypeError):
            where = join_checked(str(folder / "cells" / cell), path)
            with contextlib.suppress(OSError):
                os.unlink(where)
            with contextlib.suppress(OSError):  # an emptied folder may stand where a file belongs now
                os.removedirs(os.path.dirname(where))
    if gone:
        _forget(folder / ARRIVALS, {f"{cell}/{path}" for cell, path in gone})
        folder.mkdir(parents=True, exist_ok=True)


def _forget(log: Path, keys: set[str]) -> None:
    with contextlib.suppress(FileNotFoundError):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        log.write_text("".join(line for line in lines if _key(line) not in keys), encoding="utf-8")


def _key(line: str) -> str:
    try:
        return str(json.loads(line)[0])
    except (ValueError, IndexError, TypeError, KeyError):
        return ""


def _identity(entry: dict[str, Any]) -> tuple[Any, Any]:
    return entry["bytes"], entry["mtime_ns"]  # no inode: a box that was parked may come back with others


def _make_durable(files: list[Coming]) -> None:
    """A receipt must not outlive the bytes it speaks of: wait until they are on the disk."""
    if len(files) > _SYNC_EACH and hasattr(os, "sync"):
        _sync_disk_of(files[0].target)
        return
    if len(files) == 1:
        _sync_one(files[0].target)
        return
    from concurrent.futures import ThreadPoolExecutor  # it brings logging: 8 ms

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(_sync_one, [file.target for file in files]))


def _sync_disk_of(path: str) -> None:
    """Write back one filesystem; a mount of the user's that hangs elsewhere is none of ours."""
    import ctypes

    fd = os.open(path, os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    except AttributeError:  # not Linux
        os.sync()
    finally:
        os.close(fd)


def _sync_one(path: str) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def forget_marks(folder: Path) -> None:
    """Take away what only a pull on its way needs."""
    for name in (LISTING, ARRIVALS):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder / name)
