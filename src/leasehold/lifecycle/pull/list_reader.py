"""Read the list of files to come: in pieces, checked, stored for the next attempt, and passed to the desk."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from leasehold.errors import HomeError, VerifyError
from leasehold.kit.files.atomic import read_json, write_all
from leasehold.kit.files.manifest import Listed, ManifestError, Row
from leasehold.kit.files.paths import UnsafePath, join_checked
from leasehold.kit.text.safe_text import one_line
from leasehold.lifecycle.home.result_names import HomeNames, Probe, named
from leasehold.lifecycle.pull.files.arrivals import NAME as ARRIVALS
from leasehold.lifecycle.pull.files.incoming_file import Coming

from .scheduler import Desk

NAME = "listing.jsonl"
_OLDER_NAME = "listing.json"  # from versions that wrote it in one call
_MOST_BYTES = 1 << 30
_MOST_WORDS = 400

Parts = Iterator[dict[str, Any] | bytes]


@dataclass(frozen=True)
class LeftOut:
    """A file on the box that did not come, and why."""

    cell: str
    path: str
    why: str


@dataclass(frozen=True)
class ListPiece:
    """Some of the listed files, and the box's own text for them."""

    rows: list[Row]
    text: bytes


@dataclass(frozen=True)
class Place:
    """The target of a pull, and other places at home where its files may already lie."""

    folder: Path
    roofs: tuple[Path, ...]
    check_room: Callable[[Path, int, int], None]  # folder, bytes and files that are still to come


@dataclass(frozen=True)
class Asked:
    """The list requested from a box."""

    run: str
    cells: list[str]
    patterns: list[str]
    quiet_s: float = -1.0  # of a live run: how long a file must have been unwritten; below 0 the run has ended
    live: Mapping[str, Any] | None = None  # what more is asked of a chart of files that may still be written


class Roster(Protocol):
    """Knows which files may be listed; each method refuses by raising."""

    def check(self, named: Iterable[tuple[str, str]]) -> None:
        """Check the next files, as (cell, path)."""

    def complete(self) -> None:
        """Check that the list is complete."""


class Anything:
    """A roster that accepts every list."""

    def check(self, named: Iterable[tuple[str, str]]) -> None:
        """Accept the files."""

    def complete(self) -> None:
        """Accept the end of the list."""


class Unpacking:
    """Decompresses data from an untrusted box, up to a limit."""

    def __init__(self, what: str, most_bytes: int = _MOST_BYTES) -> None:
        self._what = what
        self._opener = zlib.decompressobj()
        self._left = most_bytes
        self._parts: list[bytes] = []

    def add(self, packed: bytes) -> None:
        """Add compressed data."""
        try:
            self._parts.append(self._opener.decompress(packed, self._left + 1))
        except zlib.error as error:
            raise VerifyError("artifact.bad_manifest", f"the box's {self._what} does not unpack: {error}") from None
        self._left -= len(self._parts[-1])
        if self._left < 0 or self._opener.unconsumed_tail:
            raise VerifyError("artifact.bad_manifest", f"the box's {self._what} does not end")

    @property
    def over(self) -> bool:
        """Return whether its end has arrived."""
        return self._opener.eof

    def whole(self) -> bytes:
        """Return all of the data."""
        return b"".join(self._parts)


def read_pieces(parts: Parts, roster: Roster, told: dict[str, Any] | None = None) -> Iterator[ListPiece]:
    """Yield the pieces of a chart's list, each checked; leave what follows the list in the parts.

    told receives what the box says at the end of its list.
    """
    listed, left = Listed(), _MOST_BYTES
    for part in parts:
        if not isinstance(part, bytes):  # {listed}: sums follow
            if told is not None:
                told.update(part)
            break
        unpacking = Unpacking("list of files", left)
        unpacking.add(part)
        text = unpacking.whole()
        left -= len(text)
        try:
            rows = listed.check(json.loads(text))
        except (ManifestError, ValueError, RecursionError) as error:
            raise VerifyError("artifact.bad_manifest", f"the box's list of files cannot be trusted: {error}") from None
        roster.check((row[0], row[1]) for row in rows)
        yield ListPiece(rows, text)
    roster.complete()


def left_out_of(told: Mapping[str, Any]) -> Iterator[LeftOut]:
    """Check what an untrusted box says it left out; a path that could not come home is shown, never used."""
    said = told.get("left")
    for one in said if isinstance(said, list) else ():
        if isinstance(one, list) and len(one) == 3 and all(isinstance(word, str) for word in one):
            yield LeftOut(*(one_line(word)[:_MOST_WORDS] for word in one))


class Intake:
    """Passes listed files to the desk as they arrive, if there is room for them, and stores the list."""

    def __init__(self, place: Place, desk: Desk, *, resumes: bool) -> None:
        self._place = place
        self._desk = desk
        self._resumes = resumes
        self._names = HomeNames(Probe(place.folder))
        self._number = 0
        self._waiting: list[Coming] = []  # there is no room for them
        self._lock = threading.Lock()  # a failed pull may end before its list; the number is another's then
        self._fd = os.open(place.folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)

    def add(self, piece: ListPiece) -> None:
        """Take a piece."""
        with self._lock:
            if self._fd < 0:
                return
            write_all(self._fd, piece.text.replace(b"\n", b" ") + b"\n")
        self._waiting += self._coming(piece.rows)
        with contextlib.suppress(HomeError):  # the total comes with the list's end
            self._put_down()

    def complete(self) -> None:
        """End the list; refuse if all that is still to come does not fit."""
        self._put_down()

    def _put_down(self) -> None:
        missing = sum(file.bytes - file.home.total if file.home else file.bytes for file in self._waiting)
        absent = self._desk.absent + sum(not file.home for file in self._waiting)
        self._place.check_room(self._place.folder, self._desk.missing_bytes + missing, absent)
        self._desk.add(self._waiting)
        self._waiting = []

    def close(self) -> None:
        """Accept no more. A second call does nothing."""
        with self._lock:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)

    def _coming(self, rows: Iterable[Row]) -> Iterator[Coming]:
        base = str(self._place.folder / "cells") + os.sep
        for cell, path, size, mtime_ns in rows:
            name = self._names.of(cell, path)  # the path was checked when it was read
            target = base + cell + os.sep + (name if os.sep == "/" else name.replace("/", os.sep))
            file = Coming(self._number, cell, path, size, mtime_ns, target, name)
            if self._resumes:
                _part_from_roof(file.target)
                file.home = self._desk.arrivals.of(file.key, file.target, size)
            self._number += 1
            yield file


def drop_changed(folder: Path, pieces: Iterable[ListPiece]) -> None:
    """Drop parts of files from an earlier attempt that are no longer listed, or have changed."""
    now = {(row[0], row[1]): row[2:] for piece in pieces for row in piece.rows}
    before = _listed_before(folder)
    called, calls = named(before, Probe(folder)), named(now, Probe(folder))
    gone = [key for key, was in before.items() if now.get(key) != was or called[key] != calls[key]]
    for cell, path in gone:
        with contextlib.suppress(UnsafePath, TypeError):
            where = join_checked(str(folder / "cells" / cell), called[cell, path])
            with contextlib.suppress(OSError):
                os.unlink(where)
            with contextlib.suppress(OSError):  # an emptied folder may be where a file belongs now
                os.removedirs(os.path.dirname(where))
    if gone:
        _forget(folder / ARRIVALS, {f"{cell}/{path}" for cell, path in gone})
        folder.mkdir(parents=True, exist_ok=True)


def begun_in(folder: Path) -> list[list[Any]]:
    """List the files that an unfinished pull in this folder was fetching: cell, path, bytes, mtime_ns."""
    return [[cell, path, *facts] for (cell, path), facts in _listed_before(folder).items()]


def forget_marks(folder: Path) -> None:
    """Remove what only an unfinished pull needs."""
    for name in (NAME, _OLDER_NAME, ARRIVALS):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder / name)


def _part_from_roof(target: str) -> None:
    """Relink a file that is a hard link into an older copy: nothing is ever written through such a link."""
    with contextlib.suppress(OSError):
        if os.lstat(target).st_nlink > 1:
            os.unlink(target)


def _listed_before(folder: Path) -> dict[tuple[str, str], Any]:
    """Return what the last attempt listed: size and time by cell and path. No inode: a parked box may have others."""
    try:
        lines = (folder / NAME).read_bytes().split(b"\n")
    except FileNotFoundError:
        return _listed_by_older(folder)
    before: dict[tuple[str, str], Any] = {}
    for line in lines[:-1]:  # a torn last piece was never acted on
        with contextlib.suppress(ValueError, TypeError):
            before.update({(str(cell), str(path)): (size, at) for cell, path, size, at in json.loads(line)})
    return before


def _listed_by_older(folder: Path) -> dict[tuple[str, str], Any]:
    kept = read_json(str(folder / _OLDER_NAME)) or read_json(str(folder / "manifest.json")) or {}
    try:
        return {
            (str(cell), str(entry["path"])): (entry["bytes"], entry["mtime_ns"])
            for cell, entries in kept["cells"].items()
            for entry in entries
        }
    except (KeyError, TypeError, AttributeError):
        return {}


def _forget(log: Path, keys: set[str]) -> None:
    with contextlib.suppress(FileNotFoundError):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        log.write_text("".join(line for line in lines if _key(line) not in keys), encoding="utf-8")


def _key(line: str) -> str:
    try:
        return str(json.loads(line)[0])
    except (ValueError, IndexError, TypeError, KeyError):
        return ""
