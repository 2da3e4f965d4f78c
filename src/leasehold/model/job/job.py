"""A job: the command to run and the artifacts to bring home. Portable; names no machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from leasehold.kit.run.cell_health import STALL_AFTER_S

from .cells import Cell, cell_from_dict


@dataclass(frozen=True)
class Artifact:
    """A promise: files matching this pattern under $LEASE_OUT are brought home and load."""

    pattern: str
    loads: str
    keys: tuple[str, ...] = ()
    allow_opaque: bool = False
    read_memory_bytes: int = 0  # the limit of its reader; 0: by the file's size
    read_s: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form; newer keys only if they are set, so that older plans keep their hash."""
        value = asdict(self)
        for name in ("read_memory_bytes", "read_s"):
            if not value[name]:
                del value[name]
        return value


@dataclass(frozen=True)
class GpuWish:
    """A constraint on cards, never a product number: name contains, count, least and most memory."""

    name: str = ""
    count: int = 1
    memory_min_bytes: int = 0
    memory_max_bytes: int = 0


@dataclass(frozen=True)
class CheckpointFacts:
    """Where checkpoints go (under $LEASE_OUT), how large one is and how long it takes to write."""

    path: str = ""
    size_bytes: int = 0
    write_s: float = 0.0
    step_s: float = 0.0  # how long one training step takes
    refuge: tuple[str, ...] = ()  # where they are copied, in order; () is the durable tier, if there is one
    every_s: float = 0.0  # no more often; 0 is the usual interval
    rate_bytes: int = 0  # no faster, in bytes a second; 0 is unlimited
    keep: int = 0  # how many of the newest stay there; 0 is the usual number
    best_metric: str = ""  # the best by it stays too
    best_mode: str = "min"
    because: str = ""  # why none leaves the box, or none is written

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form; newer keys only if they are set, so that older plans keep their hash."""
        value: dict[str, Any] = {"path": self.path, "size_bytes": self.size_bytes, "write_s": self.write_s}
        newer = {name: item for name, item in asdict(self).items() if name not in value and item}
        if not self.best_metric:
            newer.pop("best_mode")
        if self.refuge:
            newer["refuge"] = list(self.refuge)
        return {**value, **newer}


@dataclass(frozen=True)
class Download:
    """A file that the box fetches before the first attempt: its sources, a place below $LEASE_DATA, and a hash."""

    source: tuple[str, ...]
    to: str
    sha256: str = ""
    size_bytes: int = 0


@dataclass(frozen=True)
class LocalData:
    """A local file or folder that runs find on the box, read-only; identified by its content, once that was read."""

    source: str  # as written in the job file
    to: str  # its place below the run's working folder
    sha256: str = ""  # of the list of its files; empty until they were read
    bytes: int = 0
    files: int = 0
    folder: bool = True


@dataclass(frozen=True)
class NotifyWish:
    """The topics to notify a person of while this job runs, and the channels; no channel named means all."""

    on: tuple[str, ...]
    channels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """The command to run and the artifacts to bring home."""

    name: str
    run: str
    artifacts: tuple[Artifact, ...]
    setup: str = ""
    setup_frameworks: str = "keep"
    smoke: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    gpu: GpuWish | None = None
    disk_bytes: int = 0
    candidates: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    checkpoint: CheckpointFacts = CheckpointFacts()
    progress: str = "auto"
    expect_s: float = 0.0
    budget: str = ""
    at_limit: str = "warn"  # the action when the budget is used up: warn, or stop the run
    when_done: str = "ask"
    attempts: int = 3
    downloads: tuple[Download, ...] = ()
    data: tuple[LocalData, ...] = ()
    notify: NotifyWish | None = None
    evaluate: str = ""
    stall_after_s: float = STALL_AFTER_S  # 0 is never
    on_stall: str = "tell"
    on_nan: str = "tell"  # for a loss that is not finite; a cell may override it
    cells: tuple[Cell, ...] = ()  # of a sweep; a plain job has one, without parameters
    at_once: int = 0
    publish: str = ""  # s3://bucket/prefix: finished results are copied there from the box
    slurm: Mapping[str, Any] = field(default_factory=dict)
    kubernetes: Mapping[str, Any] = field(default_factory=dict)
    latest: tuple[str, ...] = ()  # patterns of checkpoints that the box searches for before each attempt
    reboot: str = "nothing"  # after a restart of the box: nothing, or resume by a hook that a person allowed

    def identity(self) -> dict[str, Any]:
        """Return what is executed: the run id is a hash of this and the code. Promises may change without a new run."""
        what: dict[str, Any] = {"name": self.name, "setup": self.setup, "run": self.run, "env": dict(self.env)}
        if self.cells:
            what["sweep"] = True  # not its cells: an added one belongs to the same sweep
        if self.data:  # by content and place: its path at home does not matter
            what["data"] = {item.to: self._read(item) for item in self.data}
        return {**what, **self._newer(), "secrets": list(self.secrets)}

    @staticmethod
    def _read(item: LocalData) -> str:
        if not item.sha256:
            raise ValueError(f"data {item.source} was not read: the run has no name yet")
        return item.sha256

    def as_dict(self) -> dict[str, Any]:
        """Return the canonical form of the whole job."""
        value = asdict(replace(self, cells=()))  # which are added below, and may be thousands
        value["env"] = dict(self.env)
        value["artifacts"] = tuple(item.as_dict() for item in self.artifacts)
        if self.at_limit == "warn":
            del value["at_limit"]  # plans older than this key keep their hash
        value["checkpoint"] = self.checkpoint.as_dict()
        if self.notify is None:
            del value["notify"]
        del value["setup_frameworks"], value["downloads"], value["evaluate"]
        if not self.publish:
            del value["publish"]
        del value["cells"], value["at_once"], value["slurm"], value["kubernetes"], value["latest"]
        if not self.data:
            del value["data"]
        usual = {"stall_after_s": STALL_AFTER_S, "on_stall": "tell", "on_nan": "tell", "reboot": "nothing"}
        for name, plain in usual.items():
            if value[name] == plain:
                del value[name]
        sweep = {"cells": [cell.as_dict() for cell in self.cells], "at_once": self.at_once} if self.cells else {}
        clusters = {"slurm": dict(self.slurm), "kubernetes": dict(self.kubernetes)}
        return {**value, **self._newer(), **sweep, **{name: asked for name, asked in clusters.items() if asked}}

    def _newer(self) -> dict[str, Any]:
        """Return the newer keys only if they are set: older runs keep their names and hashes."""
        newer: dict[str, Any] = {}
        if self.setup_frameworks != "keep":
            newer["setup_frameworks"] = self.setup_frameworks
        if self.evaluate:
            newer["evaluate"] = self.evaluate
        if self.latest:
            newer["latest"] = list(self.latest)
        if self.downloads:
            newer["downloads"] = [{**asdict(item), "source": list(item.source)} for item in self.downloads]
        return newer


def job_from_dict(value: dict[str, Any]) -> Job:
    """Read back a job that this home wrote itself."""
    known = {**value}
    known["artifacts"] = tuple(Artifact(**{**item, "keys": tuple(item["keys"])}) for item in value["artifacts"])
    known["gpu"] = GpuWish(**value["gpu"]) if value.get("gpu") else None
    saved = value.get("checkpoint") or {}
    known["checkpoint"] = CheckpointFacts(**{**saved, "refuge": tuple(saved.get("refuge", ()))})
    known["downloads"] = tuple(
        Download(**{**item, "source": tuple(item["source"])}) for item in value.get("downloads", ())
    )
    known["data"] = tuple(LocalData(**item) for item in value.get("data", ()))
    known["cells"] = tuple(map(cell_from_dict, value.get("cells", ())))
    told = value.get("notify")
    known["notify"] = NotifyWish(tuple(told["on"]), tuple(told["channels"])) if told else None
    for name in ("secrets", "candidates", "scratch", "latest"):
        known[name] = tuple(value.get(name, ()))
    return Job(**known)
