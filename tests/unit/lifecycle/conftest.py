"""A finished run on a fake box, and a home that has planned it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leasehold.ledger import books
from leasehold.ledger.store import Ledger
from leasehold.lifecycle.results.bring_home import bring_home
from leasehold.lifecycle.results.result_folders import Folders
from leasehold.model.job.job import Artifact, Job
from leasehold.model.lease.lease import RunRecord
from leasehold.model.run.note import Note
from leasehold.model.run.plan import Plan
from leasehold.model.run.receipt import Receipt
from tests.support.fake_box import FakeBox, FakeRun

Names = tuple[str, ...]
WEIGHTS = bytes(range(256)) * 3
FILES = {"metrics.json": b'{"loss": 0.25}', "weights/best.bin": WEIGHTS}
ARTIFACTS = (Artifact("metrics.json", "json"), Artifact("weights/*", "bytes"))


class Scene:
    """A home, a box, one run."""

    def __init__(self, folder: Path, cells: Names = ("main",), artifacts: tuple[Artifact, ...] = ARTIFACTS) -> None:
        self.folder = folder
        self.ledger = Ledger(folder / "home" / "ledger.sqlite")
        self.box = FakeBox(folder / "box")
        job = Job("toy", "python train.py", artifacts)
        self.plan = Plan("toy-1", job, "t" * 64, "local", ("setsid",), cells)
        self.lease = books.open_lease(self.ledger, self.box.name, "generic-ssh", "/root", "")
        self.ledger.append(
            "run_planned", lease=self.lease.id, run="toy-1", plan=self.plan.as_dict(), name="toy", box=self.box.name,
            project=str(folder), results=str(folder / "results"),
        )  # fmt: skip
        self.run: FakeRun = self.box.start(self.plan, self.ledger.home_id)
        self.run.evidence(f"cells/{cells[0]}/attempt-0001/log", b"epoch 1\n")
        self.notes: list[Note] = []
        self.folders = Folders(folder / "results", "toy-1")

    def finish(self, files: dict[str, bytes] | None = None) -> Scene:
        """End the run with these files in every cell."""
        self.run.end("finished")
        for cell in self.plan.cells:
            self.write(files or FILES, cell)
        return self

    def write(self, files: dict[str, bytes], cell: str = "main") -> None:
        """Put files into a cell's LEASE_OUT."""
        for path, content in files.items():
            where = self.run.out(cell) / path
            where.parent.mkdir(parents=True, exist_ok=True)
            where.write_bytes(content)

    def pull(self) -> Receipt:
        """Bring home over a fresh wire."""
        with self.box.connect() as engine:
            return bring_home(self.ledger, self.record, engine, self.notes.append)  # type: ignore[arg-type]

    @property
    def record(self) -> RunRecord:
        """The run as the ledger has it."""
        return books.find_run(self.ledger, "toy-1")

    @property
    def kinds(self) -> list[str]:
        """What the ledger was told of the run."""
        return [event.kind for event in self.ledger.events(run="toy-1")]

    def quarantined(self) -> list[Path]:
        """List what was set aside."""
        return sorted((self.folder / "results" / "quarantine").glob("*"))

    def everything(self) -> set[str]:
        """List every file below the test's folder, to see that nothing landed elsewhere."""
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if not path.is_dir()}


@pytest.fixture
def new_scene(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    """Give a function that makes scenes, each in a folder of its own."""
    made: list[Scene] = []

    def make(name: str = "scene", **options: object) -> Scene:
        made.append(Scene(tmp_path / name, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.ledger.close()


@pytest.fixture
def scene(new_scene: Callable[..., Scene]) -> Scene:
    """A run that has finished with what it promised."""
    return new_scene().finish()
