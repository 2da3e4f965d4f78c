"""A written fake of a box, its engine and its landlord: real files, no processes, faults on request.

`FakeEngine` answers what `CaretakerEngine` answers; tests/unit/lifecycle/test_fake_box.py holds the two together.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import zlib
from itertools import chain
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from leasehold.caretaker.proving import read_whole
from leasehold.caretaker.witness import look_for
from leasehold.errors import BoxError, LinkError
from leasehold.kit import manifest
from leasehold.kit.match import compile_pattern, walk
from leasehold.kit.paths import UnsafePath, open_below
from leasehold.kit.runstate import TERMINAL, CellState, RunState
from leasehold.model.plan import Plan

CHUNK_BYTES = 64
_MACHINE: Dict[str, Any] = {"boot": "a boot of the fake's", "processes": "pid:[1]", "slash": [1, 2], "box_id": "f4be"}
BLOCK_BYTES = 1 << 20
Get = Callable[[str, int, bytes], Iterator[bytes]]


class FakeRun:
    """A run as it lies on the box."""

    def __init__(self, folder: Path, plan: Plan, home: str) -> None:
        self.folder = folder
        self.plan = plan
        self.state = "running"
        self.alive: List[int] = []
        self.holder: Dict[str, Any] = {"home": home, "epoch": 1}
        self.cell_states = dict.fromkeys(plan.cells, "running")
        for cell in plan.cells:
            self.out(cell).mkdir(parents=True)
        self.evidence("journal.jsonl", b"")
        self.evidence("plan.json", b"{}\n")

    def out(self, cell: str) -> Path:
        """Name a cell's LEASE_OUT."""
        return self.folder / "out" / cell

    def evidence(self, path: str, content: bytes) -> None:
        """Write a file beside the results."""
        where = self.folder / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_bytes(content)

    def end(self, state: str) -> None:
        """End the run and all its cells."""
        self.state = state
        self.cell_states = dict.fromkeys(self.plan.cells, state)
        self.alive = []

    @property
    def places(self) -> Dict[str, str]:
        """Each cell's LEASE_OUT."""
        return {cell: str(self.out(cell)) for cell in self.plan.cells}


class FakeBox:
    """A folder that plays a box. `connect` gives an engine, or LinkError while the box is out of reach."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.name = "ssh:fake"
        self.transport = None
        self.runs: Dict[str, FakeRun] = {}
        self.reachable = True
        self.dies_after: Optional[int] = None  # answers of each wire until it breaks; None: it holds
        self.open_wires = 0
        self.on_get: Optional[Get] = None

    def connect(self) -> "FakeEngine":
        """Open a wire."""
        if not self.reachable:
            raise LinkError("link.timeout", "the box does not answer")
        self.open_wires += 1
        return FakeEngine(self)

    def start(self, plan: Plan, home: str) -> FakeRun:
        """Put a run on the box."""
        run = self.runs[plan.run] = FakeRun(self.root / plan.run, plan, home)
        return run

    def lose(self, run: str) -> None:
        """Let a run vanish from the box."""
        shutil.rmtree(self.runs.pop(run).folder)


class FakeWire:
    """Counts its closing."""

    def __init__(self, box: FakeBox) -> None:
        self._box = box
        self._open = True

    def close(self) -> None:
        """Hang up; a second call does nothing."""
        if self._open:
            self._box.open_wires -= 1
        self._open = False


class FakeEngine:
    """Answers from the box's files."""

    def __init__(self, box: FakeBox) -> None:
        self._box = box
        self._answers_left = box.dies_after
        self.wire = FakeWire(box)

    def runs(self) -> List[Dict[str, Any]]:
        """List every run the box knows."""
        self._answer()
        return [self._seen(self._box.runs[name]) for name in sorted(self._box.runs)]

    def look(self, run: str) -> Dict[str, Any]:
        """Say what is true of the run now."""
        self._answer()
        found = self._box.runs.get(run)
        return self._seen(found) if found else {**RunState().as_dict(), "run": run, "terminal": False, "holder": {}}

    def machine(self, also: Sequence[str] = ()) -> Tuple[Dict[str, Any], List[Dict[str, Any]]]:
        """Say which machine this is; it has one folder of ours."""
        self._answer()
        return dict(_MACHINE, real_root=str(self._box.root)), []

    def witness(self, notes: Sequence[Dict[str, Any]], limit_s: float) -> Dict[str, Any]:
        """Look for notes of home as the box does; what lies outside its folder is another machine's."""
        self._answer()
        self._box.root.mkdir(parents=True, exist_ok=True)  # a wire makes it
        own = [{**note, "places": [], "tails": []} for note in notes]
        found = look_for(str(self._box.root), own, limit_s)
        return {**found, "machine": dict(_MACHINE, real_root=str(self._box.root))}

    def round_trip_s(self) -> float:
        """This box is near."""
        return 0.0

    def hush(self, run: str, home: str) -> None:
        """End the nagging; this box never nagged."""
        self._answer()

    def fingerprint(
        self, run: str, patterns: Sequence[str] = (), whole: Sequence[str] = ()
    ) -> Tuple[Dict[str, List[Dict[str, Any]]], Dict[str, Any]]:
        """Return artifact stats by cell, and what lives and lies beside them."""
        self._answer()
        found = self._run(run)
        present = manifest.fingerprints(found.places, list(patterns))
        rest = {"seen": self._seen(found), "alive": list(found.alive), "other": _unpromised(found, list(patterns))}
        remains = {cell: _all_files(found.out(cell)) for cell in whole}
        return present, {**rest, "other_more": {"files": 0, "bytes": 0}, "remains": remains}

    def prove(self, run: str, items: Sequence[Tuple[str, str]]) -> Iterator[Dict[str, Any]]:
        """Read files in full and say what they hash to."""
        found = self._run(run)
        for cell, path in items:
            entry = read_whole(str(found.out(cell)), path, lambda count: None)
            yield {"entries": [dict(entry, cell=cell)], "upto": 0}

    def manifest(self, run: str, cells: List[str], patterns: List[str]) -> bytes:
        """Seal what the patterns name in these cells."""
        self._answer()
        found = self._run(run)
        places = {cell: found.places[cell] for cell in cells}
        try:
            built = manifest.build(run, found.plan.sha256, places, patterns)
        except manifest.ManifestError as error:
            raise BoxError("artifact.unsealable", str(error)) from None
        return manifest.encode(built)

    def get(self, run: str, area: str, cell: str, path: str, offset: int = 0) -> Iterator[bytes]:
        """Yield a file's bytes from offset on."""
        self._answer()
        found = self._run(run)
        folder = {"out": found.out(cell), "cells": found.folder / "cells" / cell, "run": found.folder}[area]
        try:
            fd = open_below(str(folder), path)
        except (OSError, UnsafePath) as error:
            raise BoxError("artifact.unreadable", "%s: %s" % (path, error)) from None
        with os.fdopen(fd, "rb") as file:
            file.seek(offset)
            data = file.read()
        if self._box.on_get is not None and area == "out":
            yield from self._box.on_get(path, offset, data)
            return
        for start in range(0, len(data), CHUNK_BYTES):
            yield data[start : start + CHUNK_BYTES]

    def get_many(self, run: str, items: List[Tuple[str, str, str]]) -> Iterator[Tuple[int, bytes]]:
        """Yield the bytes of each file that is there."""
        for number, (area, cell, path) in enumerate(items):
            with contextlib.suppress(BoxError):
                parts = list(self.get(run, area, cell, path))
                yield number, b""
                yield from ((number, part) for part in parts)

    def chart(
        self, run: str, cells: List[str], patterns: List[str], quiet_s: float = -1.0, look: bool = False
    ) -> "FakeChart":
        """List, sum, then send the manifest, whatever it says."""
        seen = [{"seen": self.look(run)}] if look else []
        return FakeChart(chain(seen, self._chart(run, cells, patterns)))

    def _chart(self, run: str, cells: List[str], patterns: List[str]) -> Iterator[Any]:
        data = self.manifest(run, cells, patterns)
        try:
            found = [(cell, entry) for cell, entries in json.loads(data)["cells"].items() for entry in entries]
            rows = [[cell, entry["path"], entry["bytes"], entry["mtime_ns"]] for cell, entry in found]
            sums = [[number, entry["sha256"]] for number, (_, entry) in enumerate(found)]
        except (ValueError, TypeError, RecursionError):
            yield data
            return
        for row in rows:  # each in a piece of its own: fetching begins before all are listed
            yield zlib.compress(json.dumps([row]).encode())
        yield {"listed": len(rows)}
        yield {"sums": sums}
        yield zlib.compress(data)

    def fetch(self, run: str, items: List[Any], pack: bool, frame_bytes: int) -> Iterator[bytes]:
        """Yield ranges of files, one after the other."""
        self._answer()
        for cell, path, offset, length, mtime_ns, *sealed in items:
            where = self._run(run).out(cell) / path
            if where.stat().st_mtime_ns != mtime_ns:
                raise BoxError("artifact.changed", "%s changed" % path)
            data = where.read_bytes()[offset : offset + length]
            chunks = (data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES))
            yield from chunks if self._box.on_get is None else self._box.on_get(path, offset, data)
            if any(sealed):
                yield hashlib.sha256(data).digest()

    def sums(self, run: str, cell: str, path: str) -> List[str]:
        """Hash each block of a file."""
        data = (self._run(run).out(cell) / path).read_bytes()
        blocks = [data[start : start + BLOCK_BYTES] for start in range(0, len(data), BLOCK_BYTES)]
        return [hashlib.sha256(block).hexdigest() for block in blocks]

    def salvageable(self, run: str, cell: str) -> List[Dict[str, Any]]:
        """List every plain file in a cell's out folder."""
        self._answer()
        return _all_files(self._run(run).out(cell))

    def _answer(self) -> None:
        """Break the link when its time has come."""
        if self._answers_left is None:
            return
        if self._answers_left == 0:
            raise LinkError("link.lost", "the connection ended")
        self._answers_left -= 1

    def _run(self, run: str) -> FakeRun:
        if run not in self._box.runs:
            raise BoxError("run.absent", "this box knows no run %s" % run)
        return self._box.runs[run]

    def _seen(self, run: FakeRun) -> Dict[str, Any]:
        told = RunState()
        told.state, told.seq = run.state, 5
        for cell, state in run.cell_states.items():
            told.cells[cell] = CellState()
            told.cells[cell].state, told.cells[cell].attempt = state, 1
            told.cells[cell].code = 0 if state == "finished" else None
        return {
            **told.as_dict(),
            "run": run.plan.run,
            "folder": str(run.folder),
            "offset": 0,
            "terminal": run.state in TERMINAL,
            "caretaker_alive": run.state not in TERMINAL,
            "cluster_problem": "",
            "standing": None,
            "health": None,
            "heartbeat_unix": None,
            "work": None,
            "now_unix": 0.0,
            "boot": "",
            "holder": dict(run.holder),
            "journal": "",
            "unproven": False,
            "place": {"folder": str(run.folder), "root": str(run.folder.parent), "care": []},
        }


class FakeChart:
    """A chart that tells every sum by itself."""

    def __init__(self, parts: Iterator[Any]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[Any]:
        return self._parts

    def want_sums(self, numbers: List[int]) -> None:
        """They come anyway."""

    def tell(self, ranges: List[Tuple[int, int]], digests: bytes) -> None:
        """They are known."""

    def seal(self, ranges: List[Tuple[int, int]], digests: bytes) -> None:
        """The manifest comes anyway."""

    def leave(self) -> None:
        """There is nothing to end."""


def _all_files(folder: Path) -> List[Dict[str, Any]]:
    return [manifest.stat_entry(entry) for entry in walk(str(folder)) if entry.is_file]


def _unpromised(run: FakeRun, patterns: List[str]) -> List[Dict[str, Any]]:
    regexes = [compile_pattern(pattern) for pattern in patterns]
    return [
        {"cell": cell, "path": entry.path, "bytes": entry.info.st_size}
        for cell, place in run.places.items()
        for entry in walk(place)
        if not any(regex.match(entry.path) for regex in regexes)
    ]
