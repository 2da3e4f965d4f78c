"""Packs: many small code files in one file of the box, since making a file takes longer than filling it.

packs/ID.pack has their bytes end to end and packs/ID.json says where each begins. A pack counts once both are there and
the first is as long as the second says; every file taken out of it is hashed.
"""

from __future__ import annotations

import contextlib
import os
import time
from _thread import get_ident
from typing import Any, BinaryIO, Dict, KeysView, List, Optional, Set, Tuple

from leasehold.kit.files.atomic import read_json, write_json

MOST_PACKS = 32  # a lookup reads the index of every pack
_FULL_BYTES = 8 << 20  # what a push that is killed may lose,
_LONG_S = 30.0  # or this much of its time
_BYTES, _PLACES = ".pack", ".json"

Spot = Tuple[str, int, int]  # pack, start, size


class Packs:
    """The packs of a folder, as they are when first asked for."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._spots: Optional[Dict[str, Spot]] = None
        self._open: Dict[str, int] = {}

    def names(self) -> KeysView[str]:
        """List the files that lie in packs."""
        return self._where().keys()

    def fetch(self, name: str) -> Optional[bytes]:
        """Return a file as it lies in its pack, not yet verified; None where no pack has it."""
        spot = self._where().get(name)
        if spot is None:
            return None
        stem, start, size = spot
        if stem not in self._open:
            self._open[stem] = os.open(stem + _BYTES, os.O_RDONLY)
        return os.pread(self._open[stem], size, start)

    def drop_with(self, name: str) -> None:
        """Delete the pack that has this file: other files of a damaged pack may be damaged too."""
        spot = self._where().get(name)
        if spot is not None:
            _unlink(spot[0])
            self.close()

    def drop_unused(self, used: Set[str], older_than_unix: float, dry_run: bool) -> Tuple[int, int]:
        """Remove packs of which nothing is used, and leftovers of a killed push; return how many files and bytes."""
        count = size = 0
        for stem in _stems(self._folder, _BYTES):
            with contextlib.suppress(OSError):
                info = os.lstat(stem + _BYTES)
                names = _places(stem).keys()
                if info.st_ctime < older_than_unix and used.isdisjoint(names):
                    if not dry_run:
                        _unlink(stem)
                    count, size = count + len(names), size + info.st_size
        self.close()
        return count, size

    def close(self) -> None:
        """Close files and forget what was read."""
        for fd in self._open.values():
            os.close(fd)
        self._open, self._spots = {}, None

    def _where(self) -> Dict[str, Spot]:
        if self._spots is None:
            self._spots = {}
            for stem in _stems(self._folder, _PLACES):
                self._spots.update(_places(stem))
        return self._spots


class Packing:
    """Packs that are being filled, one after the other; the last counts once close() was called."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        self._folder = folder
        self._file: Optional[BinaryIO] = None
        self._stem = ""
        self._places: Dict[str, List[int]] = {}
        self._bytes = 0
        self._began = 0.0

    def add(self, name: str, whole: memoryview) -> None:
        """Add a file whose hash was checked."""
        if self._file is None:
            self._stem = os.path.join(self._folder, "%x-%x-%x" % (time.time_ns(), os.getpid(), get_ident()))
            self._began = time.monotonic()
            self._file = open(self._stem + _BYTES, "xb", buffering=1 << 20)  # noqa: SIM115 - close does
        self._file.write(whole)
        self._places[name] = [self._bytes, len(whole)]
        self._bytes += len(whole)
        if self._bytes >= _FULL_BYTES or time.monotonic() - self._began > _LONG_S:
            self.close()

    def close(self) -> None:
        """Write what is held back, and the index; drop what the disk has no room for."""
        if self._file is None:
            return
        file, self._file = self._file, None
        places, self._places, size, self._bytes = self._places, {}, self._bytes, 0
        try:
            file.close()
            write_json(self._stem + _PLACES, {"bytes": size, "files": places}, durable=False)
        except OSError:
            _unlink(self._stem)
            raise


def count_packs(folder: str) -> int:
    """Count the packs of a folder."""
    return len(_stems(folder, _PLACES))


def _stems(folder: str, ending: str) -> List[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [os.path.join(folder, name[: -len(ending)]) for name in names if name.endswith(ending) and name[0] != "."]


def _places(stem: str) -> Dict[str, Spot]:
    """Read the index of a pack; empty where it is damaged, for example after a power cut."""
    said: Any = read_json(stem + _PLACES) or {}
    try:
        if os.stat(stem + _BYTES).st_size != said["bytes"]:
            return {}
        return {name: (stem, int(start), int(size)) for name, (start, size) in said["files"].items()}
    except (OSError, KeyError, TypeError, ValueError, AttributeError):
        return {}


def _unlink(stem: str) -> None:
    for ending in (_PLACES, _BYTES):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(stem + ending)
