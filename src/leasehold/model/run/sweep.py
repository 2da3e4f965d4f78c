"""Types of a sweep: the state of cells, and their measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from leasehold.model.job.cells import Cell, Scalar


class Word(Enum):
    """The state of a cell; only the first two are accounted for."""

    HOME = "home"
    WAIVED = "waived"
    ON_BOX = "on the box"
    RUNNING = "running"
    WAITING = "waiting"
    MISSING = "missing"
    EMPTY = "empty"
    STALE = "stale"
    BROKEN = "broken"
    FAILED = "failed"
    STOPPED = "stopped"
    UNKNOWN = "unknown"

    @property
    def settled(self) -> bool:
        """Return whether the teardown gate may open for it."""
        return self in (Word.HOME, Word.WAIVED)


@dataclass(frozen=True)
class Part:
    """What is known of one run of the sweep: its box's report, its receipt, its files."""

    run: str
    box: str
    cells: tuple[str, ...]
    seen: Mapping[str, Mapping[str, Any]]  # the box's report on each cell; empty if it could not be asked
    files: Mapping[str, Sequence[Mapping[str, Any]]]  # by cell: {path, bytes, sha256?, mtime_ns?}
    home: frozenset[str] = frozenset()  # cells that a receipt covers
    waived: frozenset[str] = frozenset()
    problem: str = ""  # why the box could not be asked
    refused: Mapping[str, str] = field(default_factory=dict)  # cells that arrived and did not load, and why
    resume: str = "the same lease run"  # what it is doing now
    now_unix: float = 0.0  # by the box's own clock, when it was queried


@dataclass(frozen=True)
class Account:
    """One cell, accounted for or not."""

    cell: str
    word: Word
    run: str = ""
    box: str = ""
    what: str = ""
    mend: str = ""  # the command that closes the gap
    remarks: tuple[str, ...] = ()  # what looks odd but blocks nothing

    @property
    def settled(self) -> bool:
        """Return whether nothing is owed for it."""
        return self.word.settled

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form for --json."""
        return {
            "cell": self.cell, "word": self.word.value, "settled": self.settled, "run": self.run, "box": self.box,
            "what": self.what, "mend": self.mend, "remarks": list(self.remarks),
        }  # fmt: skip


@dataclass(frozen=True)
class Standing:
    """The state of a sweep: what was promised, what each run reports, and how every cell is accounted for."""

    sweep: str
    roster: tuple[Cell, ...]
    parts: tuple[Part, ...]
    accounts: tuple[Account, ...]

    @property
    def settled(self) -> bool:
        """Return whether every promised cell is home or waived."""
        return all(account.settled for account in self.accounts)

    def counts(self) -> dict[str, int]:
        """Count cells by their state, in the order of the accounts."""
        found: dict[str, int] = {}
        for account in self.accounts:
            found[account.word.value] = found.get(account.word.value, 0) + 1
        return found


@dataclass(frozen=True)
class Straggler:
    """A running cell that takes longer than similar ones."""

    cell: str
    ran_s: float
    usual_s: float


@dataclass(frozen=True)
class BoxPace:
    """One box's part of a sweep: what is done, what runs, and how long the rest will take."""

    box: str
    run: str
    cells: int
    done: int
    running: tuple[str, ...]
    waiting: int
    bad: int  # neither done nor running
    left_s: float | None
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form for --json."""
        return {**vars(self), "running": list(self.running)}


@dataclass(frozen=True)
class CellRow:
    """One cell: its name, its parameters, its measurements, and its state."""

    cell: str
    params: Mapping[str, Scalar]
    metrics: Mapping[str, float]
    state: str
    from_log: bool = False  # its artifacts hold no numbers: these are the last ones that it printed


@dataclass(frozen=True)
class Spread:
    """A metric over seeds: with one value there is no standard deviation."""

    mean: float
    sd: float | None
    n: int

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form for --json."""
        return {"mean": self.mean, "sd": self.sd, "n": self.n}

    def __str__(self) -> str:
        if self.sd is None:
            return f"{self.mean:.6g}"
        return f"{self.mean:.6g} ± {self.sd:.2g} (n={self.n})"


@dataclass(frozen=True)
class Group:
    """The cells that differ in nothing but their seed."""

    params: Mapping[str, Scalar]
    cells: tuple[str, ...]
    metrics: Mapping[str, Spread]


@dataclass(frozen=True)
class SweepPlot:
    """A metric against one parameter: lines by the other settings, and the curve of each cell if it is home."""

    metric: str
    axis: str
    lines: Mapping[str, Sequence[tuple[Scalar, float, float | None, int]]]  # x, mean, sd, n
    curves: Mapping[str, tuple[str, Sequence[tuple[float, float]]]]  # by cell: its line, and (step, value)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form for --json."""
        keys = ("x", "mean", "sd", "n")
        lines = {name: [dict(zip(keys, point, strict=True)) for point in line] for name, line in self.lines.items()}
        return {**vars(self), "lines": lines}


@dataclass(frozen=True)
class Best:
    """The best setting by one metric, with the intended direction."""

    metric: str
    direction: str  # min or max
    guessed: bool
    params: Mapping[str, Scalar]
    value: Spread
    of: int
