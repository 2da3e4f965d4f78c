"""A state on its way into a cell's output folder: staged beside it, hashed on arrival, then moved in by renames.

arriving/<cell>/<state>/    its files as far as they came; a cut leaves them, and the next try continues
cells/<cell>/laid.json      written last: the state lies whole in $LEASE_OUT, and where it came from
replaced/<cell>/<n>/        files of the same kind that lay there before: older work of this box, kept
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Tuple

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.wire.refused import Refused
from leasehold.kit.files.atomic import fsync_folder, write_all, write_json
from leasehold.kit.files.globbing import matching
from leasehold.kit.files.paths import check_name, check_relative, join_checked
from leasehold.kit.files.sha256 import hash_file, new_sha256

DIFFERS = "state.differs"
_SPARE_BYTES = 64 << 20
_BLOCK_BYTES = 1 << 20


class Part(NamedTuple):
    """One file of a state, named as $LEASE_OUT will have it."""

    path: str
    bytes: int
    sha256: str


class Arriving:
    """One state on its way into one cell."""

    def __init__(self, folder: RunFolder, cell: str, state: str, parts: Iterable[Any]) -> None:
        self.folder = folder
        self.cell = check_name(cell, "cell")
        self.state = check_name(state, "state")
        self.parts = [Part(check_relative(path), _size(size), str(sha)) for path, size, sha in parts]
        if len({one.path for one in self.parts}) != len(self.parts):
            raise Refused("wire.bad_request", "a state names a file twice")
        self.stage = os.path.join(folder.arriving(cell), self.state)

    def lacking(self) -> List[Tuple[int, int]]:
        """Return (index, bytes that are here) of each file that is not whole here; other states' leftovers go."""
        self._drop_others()
        found = []
        for index, one in enumerate(self.parts):
            staged = self._staged(one)
            have = min(_size_of(staged), one.bytes)
            if (have < one.bytes or not os.path.exists(staged)) and not self._lies_there(one):
                found.append((index, have))
        return found

    def need_room(self, lacking: Iterable[Tuple[int, int]]) -> None:
        """Refuse before any byte travels if the disk has no room for them."""
        os.makedirs(self.stage, exist_ok=True)
        figures = os.statvfs(self.stage)
        free = figures.f_bavail * figures.f_frsize
        more = sum(self.parts[index].bytes - have for index, have in lacking)
        if more and free < more + _SPARE_BYTES:
            text = "%s has %d bytes free; the state needs %d more, and %d are kept free"
            raise Refused("data.no_room", text % (self.stage, free, more, _SPARE_BYTES))

    def take(self, index: int, offset: int, read: Iterator[bytes], tick: Callable[[int], None]) -> None:
        """Write one file from an offset on and check its hash; a cut leaves what came, other bytes leave nothing."""
        one = self.parts[index]
        path = self._staged(one)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        try:
            if _size_of(path) < offset:
                raise Refused(
                    "state.cut", "what was here of %s is gone; the identical command sends it again" % one.path
                )
            os.ftruncate(fd, offset)
            sha, at = new_sha256(one.bytes), 0
            while at < offset and (block := os.read(fd, min(_BLOCK_BYTES, offset - at))):
                sha.update(block)
                at += len(block)
            for chunk in read:
                sha.update(chunk)
                write_all(fd, chunk)
                at += len(chunk)
                tick(len(chunk))
            if at < one.bytes:
                raise Refused("state.cut", "%s ended after %d of %d bytes" % (one.path, at, one.bytes))
            if at > one.bytes or sha.hexdigest() != one.sha256:
                os.unlink(path)
                raise Refused(
                    DIFFERS, "%s of state %s arrived with other bytes than its hash says" % (one.path, self.state)
                )
            os.fsync(fd)
        finally:
            os.close(fd)

    def settle(self, pattern: str, facts: Mapping[str, Any]) -> Dict[str, Any]:
        """Move the whole state into $LEASE_OUT and record it; files of the same kind that lay there are set aside."""
        out = self.folder.out(self.cell)
        os.makedirs(out, exist_ok=True)
        self._set_aside(out, pattern)
        for one in self.parts:
            staged, target = self._staged(one), join_checked(out, one.path)
            if os.path.exists(staged):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.replace(staged, target)
        for place in {os.path.dirname(join_checked(out, one.path)) for one in self.parts}:
            fsync_folder(place)
        os.makedirs(self.folder.cell(self.cell), exist_ok=True)
        laid = dict(facts, state=self.state, files=len(self.parts), bytes=sum(one.bytes for one in self.parts))
        write_json(self.folder.laid(self.cell), laid)
        shutil.rmtree(self.folder.arriving(self.cell), ignore_errors=True)
        return laid

    def _set_aside(self, out: str, pattern: str) -> None:
        """Keep older states of this box out of the trainer's sight: it would load the one with the highest step."""
        if not pattern:
            return
        mine = {one.path for one in self.parts}
        found = {hit.path for listed in matching(out, [pattern, pattern + "/**"]) for hit in listed if hit.is_file}
        there = sorted(path for path in found if path not in mine or os.path.exists(join_checked(self.stage, path)))
        if not there:
            return
        above = self.folder.replaced(self.cell)
        os.makedirs(above, exist_ok=True)
        place = os.path.join(above, "%04d" % (len(os.listdir(above)) + 1))
        for path in there:
            target = join_checked(place, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.replace(join_checked(out, path), target)

    def _lies_there(self, one: Part) -> bool:
        """Return whether the file lies in $LEASE_OUT already: a command was killed while it moved the state in."""
        path = join_checked(self.folder.out(self.cell), one.path)
        with contextlib.suppress(OSError):
            return os.path.isfile(path) and _size_of(path) == one.bytes and hash_file(path) == one.sha256
        return False

    def _staged(self, one: Part) -> str:
        return join_checked(self.stage, one.path)

    def _drop_others(self) -> None:
        """Remove what came of another state: only one of them can be laid."""
        above = os.path.dirname(self.stage)
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(above):
                if name != self.state:
                    shutil.rmtree(os.path.join(above, name), ignore_errors=True)


def _size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise Refused("wire.bad_request", "%r is no size" % (value,))
    return value


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
