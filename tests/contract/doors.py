"""A door is a way to a box, and our folder on the box as seen from behind; and small work to send through it."""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from leasehold.caretaker.uploads.trees import lay_out
from leasehold.errors import LinkError
from leasehold.kit.files.code_tree import tree_hash, tree_text
from leasehold.model.job.job import Artifact, Job
from leasehold.model.run.plan import Plan
from leasehold.platforms.engines.caretaker.engine import CaretakerEngine
from leasehold.transport.contract import Transport
from leasehold.transport.exec.kubectl import Kubectl, KubectlTransport
from leasehold.transport.openssh import SshAddress, SshTransport
from leasehold.transport.process import LocalTransport
from leasehold.transport.wire import Wire
from tests.support.autodl_bed import AutodlBed, autodl_bed
from tests.support.beds import Bed, KubectlBed, LocalBed, kubectl_bed, local_bed, running, ssh_bed
from tests.support.sshd import HOST

RUN = "job-1"


@dataclass
class Door:
    """A transport to a box with nothing of ours on it, and our folder there: by its name, and from behind."""

    transport: Transport
    place: str  # as the box names it
    root: Path  # as we can open it from here; the same path on a box that shares our disks
    wires: list[Wire] = field(default_factory=list)

    def open(self, transport: Transport | None = None) -> Wire:
        """Open one more wire; it closes with the door."""
        wire = Wire(transport or self.transport, self.place)
        self.wires.append(wire)
        return wire

    def engine(self) -> CaretakerEngine:
        """Open one more wire with an engine on it."""
        return CaretakerEngine(self.open())

    def _first_engine(self) -> CaretakerEngine:
        """Open the first wire; a box that was rented a moment ago may not listen yet."""
        for _ in range(40):
            try:
                return self.engine()
            except LinkError:
                time.sleep(0.5)
        return self.engine()

    def start(self, plan: Plan) -> CaretakerEngine:
        """Bring the code, start the plan, and return an engine that can ask about it."""
        engine = self._first_engine()
        engine.uploads.push(CODE)
        engine.work.start(plan, "a home")
        return engine

    def serving(self) -> list[int]:
        """List the far ends of the open wires."""
        return running("serve", self.place)

    def beside(self, name: str) -> tuple[str, Path]:
        """A path next to our folder: by its name on the box, and from behind."""
        return f"{posixpath.dirname(self.place)}/{name}", self.root.parent / name

    def parcels(self) -> dict[str, tuple[int, int]]:
        """List the parcels on the box, each with the identity of its main file."""
        places = [path / "__main__.py" for path in (self.root / "caretaker").iterdir()]
        return {place.parent.name: (place.stat().st_ino, place.stat().st_mtime_ns) for place in places}

    def out(self) -> Path:
        """The cell's output folder, from behind."""
        return self.root / "active" / RUN / "out" / "main"


@contextlib.contextmanager
def opened(kind: str, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """Give a door of this kind to an empty box on which our folder has this name."""
    with _BEDS[kind](folder) as bed:
        for variable, value in bed.environment.items():
            monkeypatch.setenv(variable, value)
        root = bed.root.parent / name
        if isinstance(bed, KubectlBed):
            door = Door(KubectlTransport(Kubectl("", ""), lambda: "pod-1", "train"), str(root), root)
        elif isinstance(bed, LocalBed):
            door = Door(LocalTransport(), str(root), root)
        elif isinstance(bed, AutodlBed):
            transport = SshTransport(SshAddress.parse(bed.box.name), folder / "pins")
            door = Door(transport, f"{posixpath.dirname(bed.place)}/{name}", root)
        else:
            door = Door(SshTransport(SshAddress.parse(HOST), folder / "pins"), str(root), root)
        try:
            yield door
        finally:
            for wire in door.wires:
                wire.close()


_BEDS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Bed]]] = {
    "local": local_bed,
    "kubectl": kubectl_bed,
    "ssh": ssh_bed,
    "autodl": autodl_bed,
}


# ---------------------------------------------------------------- small work


@dataclass(frozen=True)
class Code:
    """Files as they travel."""

    files: dict[str, bytes]
    changed: Sequence[dict[str, Any]] = ()

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The tree's list of files."""
        return [
            {"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for path, data in self.files.items()
        ]

    @property
    def text(self) -> bytes:
        """The list that the name is the hash of."""
        return tree_text(self.entries)

    @property
    def sha256(self) -> str:
        """The tree's name."""
        return tree_hash(self.entries)

    def read(self, entry: dict[str, Any]) -> Iterator[bytes]:
        """A file's bytes."""
        yield self.files[entry["path"]]


def laid_out(door: Door, code: Code, target: Path) -> dict[str, bytes]:
    """What a run would get of this code."""
    lay_out(str(door.root), code.sha256, str(target))
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


CODE = Code({"train.sh": b"echo trained\n", "pkg/data.txt": b"x" * 1000})


def plan_of(script: str, *patterns: str, run: str = RUN, attempts: int = 3) -> Plan:
    """Plan one cell that runs a shell script; it promises result.txt unless patterns say otherwise."""
    artifacts = tuple(Artifact(pattern, "bytes") for pattern in patterns or ("result.txt",))
    job = Job("job", script, artifacts, attempts=attempts)
    return Plan(run=run, job=job, tree=CODE.sha256, platform="local", detach=("setsid",))


# Waits for a file `go` beside its code, which let_go() makes; bounded, whatever happens to the test.
WAITS = "i=0; while [ ! -e go ] && [ $i -lt 30000 ]; do sleep 0.02; i=$((i+1)); done; "
RESULT = 'printf done > "$LEASE_OUT/result.txt"; '


def let_go(door: Door) -> None:
    """Let a script that WAITS go on."""
    (door.root / "active" / RUN / "work" / "main" / "go").touch()


def seal(engine: CaretakerEngine, *patterns: str) -> bytes:
    """Have the run's artifacts sealed: the planned ones, unless patterns say otherwise."""
    return engine.proof.manifest(RUN, ["main"], list(patterns))


def prints(engine: CaretakerEngine) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Any]]:
    """Fingerprint the planned artifacts."""
    return engine.proof.fingerprint(RUN, [])


def wait_end(engine: CaretakerEngine, run: str = RUN, limit_s: float = 60.0) -> Mapping[str, Any]:
    """Look until the run has ended."""
    deadline = time.monotonic() + limit_s
    while not (seen := engine.observe.look(run))["terminal"]:
        assert time.monotonic() < deadline, seen
        time.sleep(0.02)
    return seen
