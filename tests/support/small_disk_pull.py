"""python -m tests.support.small_disk_pull ROOT INTO bytes|inodes: pull onto a small disk that fills meanwhile.

Prints one JSON object: how the pull ended while the disk was full, how a second one did, and what came after there was
room again.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leasehold.errors import LeaseholdError
from leasehold.lifecycle.pull.list_reader import Asked, Place
from leasehold.lifecycle.pull.rate import Pace
from leasehold.lifecycle.pull.session import open_chart, pull
from leasehold.lifecycle.pull.streams import Way
from leasehold.lifecycle.results.result_folders import Folders
from leasehold.platforms.engines.caretaker.engine import CaretakerEngine
from leasehold.transport.process import LocalTransport
from tests.contract.doors import RUN, Door, plan_of, wait_end

_FILES = {"bytes": {"big": 24 << 20}, "inodes": {f"{number // 100}/{number}": 3000 for number in range(300)}}
_MOST_FILLER_BYTES, _MOST_FILLER_FILES = 128 << 20, 2000


class Crowded:
    """An engine during whose first answer somebody else fills the disk."""

    def __init__(self, engine: CaretakerEngine, into: Path, what: str) -> None:
        self._engine = engine
        self.ranges = CrowdedRanges(engine.ranges, into, what)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class CrowdedRanges:
    """Its part that reads files."""

    def __init__(self, real: Any, into: Path, what: str) -> None:
        self._real = real
        self._into = into
        self._what = what
        self._full = False

    def fetch(self, run: str, items: list[Any], *, pack: bool, frame_bytes: int) -> Iterator[bytes]:
        """Fetch; when something is written there is no room any more: of a large file that is after a whole block."""
        came = 0
        for chunk in self._real.fetch(run, items, pack=pack, frame_bytes=frame_bytes):
            yield chunk
            came += len(chunk)
            if not self._full and came >= (2 << 20 if self._what == "bytes" else 1):
                self._full = True
                fill(self._into, self._what)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def fill(into: Path, what: str) -> None:
    """Take what is left of a small disk; bounded, and never on a disk that is not one of its own."""
    assert os.path.ismount(into)
    (into / "filler").mkdir()
    try:
        if what == "bytes":
            with open(into / "filler" / "0", "wb", buffering=0) as file:
                for _ in range(_MOST_FILLER_BYTES >> 16):
                    file.write(bytes(1 << 16))
        else:
            for number in range(_MOST_FILLER_FILES):
                (into / "filler" / str(number)).touch()
    except OSError:
        return
    raise AssertionError("the disk did not fill")


def main() -> int:
    """Do it and say how it went."""
    root, into, what = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    door = Door(LocalTransport(), str(root), root)
    engine = door.start(plan_of("true", "**"))
    wait_end(engine)
    for path, size in _FILES[what].items():
        where = door.out() / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_bytes(os.urandom(size))
        os.utime(where, (time.time() - 60, time.time() - 60))
    folders = Folders(into / "results", RUN)
    folders.make()
    said = [once(Crowded(engine, into, what), folders), once(engine, folders)]
    for filler in (into / "filler").iterdir():
        filler.unlink()
    said.append(once(engine, folders))
    came = folders.partial / "cells" / "main"
    equal = all((came / path).read_bytes() == (door.out() / path).read_bytes() for path in _FILES[what])
    print(json.dumps({"said": said, "equal": equal, "total": sum(_FILES[what].values())}))
    engine.close()
    return 0


def once(engine: Any, folders: Folders) -> dict[str, Any]:
    """Pull once; say how it ended and how much came."""
    pace = Pace(lambda note: None)
    place = Place(folders.partial, folders.roofs, lambda folder, need_bytes, need_files: None)
    try:
        pull(engine, open_chart(engine, Asked(RUN, ["main"], ["**"])), place, Way(RUN), pace, lambda note: None)
    except LeaseholdError as error:
        return {"code": error.code, "hint": error.hint, "fetched": pace.fetched_bytes}
    return {"code": "", "hint": "", "fetched": pace.fetched_bytes}


if __name__ == "__main__":
    sys.exit(main())
