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
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from leasehold.caretaker.artifacts.read_in_full import read_whole
from leasehold.caretaker.requests.home_note import look_for
from leasehold.errors import BoxError, LinkError
from leasehold.kit.files import manifest
from leasehold.kit.files.globbing import compile_pattern, walk
from leasehold.kit.files.paths import UnsafePath, open_below
from leasehold.kit.run.run_state import CellState, RunState
from leasehold.kit.run.run_states import TERMINAL
from leasehold.model.run.plan import Plan

CHUNK_BYTES = 64
_MACHINE: Dict[str, Any] = {"boot": "a boot of the fake's", "processes": "pid:[1]", "slash": [1, 2]}
_LONG_S = 900.0
BLOCK_BYTES = 1 << 20
Get = Callable[[str, int, bytes], Iterator[bytes]]


class FakeRun:
    """A run as it lies on the box."""

    def __init__(self, folder: Path, plan: Plan, home: str) -> None:
        self.folder = folder
        self.plan = plan
        self.state = "running"
        self.alive: List[int] = []
        self.occupants: List[Dict[str, Any]] = []  # as caretaker/status/occupants.py spells them
        self.cleared: List[Dict[str, Any]] = []
        self.problem = ""  # why the box cannot say what this folder is
        self.unproven = ""  # what of its journal cannot be read
        self.frozen = False  # its caretaker gives no sign of life
        self.locks_lost = False  # its lock files are gone, and whoever held them lives on
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


@dataclass
class FakeMachine:
    """What all folders of one machine share: the way to it, and its faults."""

    reachable: bool = True
    dies_after: Optional[int] = None  # answers of each wire until it breaks; None: it holds
    open_wires: int = 0
    on_get: Optional[Get] = None
    sees_home: bool = False  # it mounts a disk of home's, under another path and beside our folders
    roots: Dict[str, Dict[str, FakeRun]] = field(default_factory=dict)
    unmounted: Set[str] = field(default_factory=set)  # folders whose disk is not there: empty ones lie in their place


def _of_machine(name: str) -> Any:
    return property(lambda box: getattr(box.machine, name), lambda box, value: setattr(box.machine, name, value))


@dataclass(eq=False)
class FakeBox:
    """A folder that plays a box. `connect` gives an engine, or LinkError while the box is out of reach."""

    root: Path
    machine: FakeMachine = field(default_factory=FakeMachine)

    name = "ssh:fake"
    transport = None
    reachable = _of_machine("reachable")
    dies_after = _of_machine("dies_after")
    open_wires = _of_machine("open_wires")
    on_get = _of_machine("on_get")

    def __post_init__(self) -> None:
        self.root = Path(self.root)

    @property
    def runs(self) -> Dict[str, FakeRun]:
        """What lies in this folder, seen or not."""
        return self.machine.roots.setdefault(str(self.root), {})

    @property
    def in_sight(self) -> Dict[str, FakeRun]:
        """The runs that whoever looks into this folder finds."""
        return {} if str(self.root) in self.machine.unmounted else self.runs

    def connect(self) -> "FakeEngine":
        """Open a wire."""
        if not self.reachable:
            raise LinkError("link.timeout", "the box does not answer")
        self.open_wires += 1
        return FakeEngine(self)

    def told(self) -> List[Tuple[int, str]]:
        """Print each run's status and its age, as the boot line does."""
        if not self.reachable or self.dies_after == 0:
            raise LinkError("link.timeout", "the box does not answer")
        return [(0, json.dumps({"run": name, "state": run.state})) for name, run in self.in_sight.items()]

    def start(self, plan: Plan, home: str) -> FakeRun:
        """Put a run on the box."""
        run = self.runs[plan.run] = FakeRun(self.root / plan.run, plan, home)
        return run

    def lose(self, run: str) -> None:
        """Let a run vanish from the box."""
        shutil.rmtree(self.runs.pop(run).folder)

    def identity(self) -> Dict[str, Any]:
        """Say which machine this is; a folder that was just made has another name."""
        hidden = str(self.root) in self.machine.unmounted
        return dict(_MACHINE, real_root=os.path.realpath(self.root), box_id="new" if hidden else "f4be")


class FakeEngine:
    """Answers from the box's files; it is each of its own parts."""

    heard_bytes = 0
    lost = None

    def __init__(self, box: FakeBox) -> None:
        self._box = box
        self._answers_left = box.dies_after
        self._open = True
        self.work = self.observe = self.hold = self.ranges = self.proof = self.uploads = self.box = self
        self.checks = self.notes = self.care = self.power = self

    def __enter__(self) -> "FakeEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        if self._open:
            self._box.open_wires -= 1
        self._open = False

    def runs(self) -> List[Dict[str, Any]]:
        """List every run the box knows."""
        self._answer()
        return [_listed(run) for _, run in sorted(self._box.in_sight.items())]

    def look(self, run: str) -> Dict[str, Any]:
        """Say what is true of the run now."""
        self._answer()
        found = self._box.in_sight.get(run)
        return _seen(found) if found else {**RunState().as_dict(), "run": run, "terminal": False, "holder": {}}

    def machine(self, also: Sequence[str] = ()) -> Tuple[Dict[str, Any], List[Dict[str, Any]]]:
        """Say which machine this is, and what lies in its other folders of ours."""
        self._answer()
        machine = self._box.machine
        return self._box.identity(), [
            _look_into(root, runs)
            for root, runs in sorted(machine.roots.items())
            if root != str(self._box.root) and root not in machine.unmounted
        ]

    def witness(self, notes: Sequence[Dict[str, Any]], limit_s: float) -> Dict[str, Any]:
        """Look for notes of home as the box does; its folder here is of another machine than home's."""
        self._answer()
        self._box.root.mkdir(parents=True, exist_ok=True)  # a wire makes it
        own = [{**note, "places": [], "tails": []} for note in notes]
        found = look_for(str(self._box.root), own, limit_s)
        if self._box.machine.sees_home:
            found["seen"] = {str(note["name"]): "/mnt/home/%s" % note["name"] for note in notes}
        return {**found, "machine": self._box.identity()}

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
        rest = {"seen": _seen(found), "alive": list(found.alive), "other": _unpromised(found, list(patterns))}
        who = self.occupants_of(found)
        remains = {cell: _all_files(found.out(cell)) for cell in whole}
        beside = dict.fromkeys(found.plan.cells, "") if found.state in ("failed", "stopped") else {}
        none: Dict[str, Any] = {"files": 0, "bytes": 0}
        rest.update(other_more=none, remains=remains, beside=beside, astray={"files": [], "more": none})
        return present, {**rest, **who}

    @staticmethod
    def occupants_of(run: FakeRun) -> Dict[str, Any]:
        """Say who works in a run's folders."""
        return {"occupants": [dict(one) for one in run.occupants], "occupants_more": 0, "unread": []}

    def occupants(self, run: str) -> Dict[str, Any]:
        """Say that by itself."""
        self._answer()
        return self.occupants_of(self._run(run))

    def clear_occupant(self, run: str, home: str, process: Dict[str, Any]) -> None:
        """Note that a person called a process harmless."""
        self._answer()
        self._run(run).cleared.append(dict(process))

    def prove(self, run: str, items: Sequence[Tuple[str, str]]) -> Iterator[Dict[str, Any]]:
        """Read files in full and say what they hash to."""
        self._answer()
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

    def live_chart(self, run: str, cells: List[str], wish: Any) -> "FakeChart":
        """List what there is; nothing here is ever in doubt."""
        return self.chart(run, cells, wish["patterns"], wish["quiet_s"])

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

    def fetch(self, run: str, items: List[Any], pack: bool, frame_bytes: int, view: str = "") -> Iterator[bytes]:
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
        if run not in self._box.in_sight:
            raise BoxError("run.absent", "this box knows no run %s" % run)
        return self._box.runs[run]


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


def _listed(run: FakeRun) -> Dict[str, Any]:
    if run.problem:
        return {"run": run.plan.run, "problem": run.problem, "state": "unknown", "terminal": False}
    return _seen(run)


def _look_into(root: str, runs: Dict[str, FakeRun]) -> Dict[str, Any]:
    sound = [_seen(run) for _, run in sorted(runs.items()) if not run.problem]
    return {"root": root, "runs": sound, "problem": "; ".join(run.problem for run in runs.values() if run.problem)}


def _seen(run: FakeRun) -> Dict[str, Any]:
    told = RunState()
    told.state, told.seq = run.state, 5
    for cell, state in run.cell_states.items():
        told.cells[cell] = CellState()
        told.cells[cell].state, told.cells[cell].attempt = state, 1
        told.cells[cell].code = 0 if state == "finished" else None
    over = run.state in TERMINAL
    return {
        **told.as_dict(),
        "run": run.plan.run,
        "folder": str(run.folder),
        "offset": 0,
        "terminal": over,
        "caretaker_alive": not over and not run.locks_lost,
        "cluster_problem": "",
        "standing": None,
        "health": None,
        "heartbeat_unix": None,
        "proof_age_s": None if over else _LONG_S * run.frozen,
        "work": None,
        "now_unix": 0.0,
        "boot": "",
        "holder": dict(run.holder),
        "journal": run.unproven,
        "unproven": bool(run.unproven),
        "fence": {},
        "progress": None,
        "place": {"folder": str(run.folder), "root": str(run.folder.parent), "care": []},
        "notifies": False,
    }
