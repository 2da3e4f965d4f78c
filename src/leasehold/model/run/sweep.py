"""Nouns of a sweep: how cells stand, and what they measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from leasehold.model.job.cells import Cell, Scalar


class Word(Enum):
    """How a cell stands; only the first two are accounted for."""

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
        """Whether the teardown gate may open for it."""
        return self in (Word.HOME, Word.WAIVED)


@dataclass(frozen=True)
class Part:
    """What is known of one run of the sweep: its box's word, its receipt, its files."""

    run: str
    box: str
    cells: tuple[str, ...]
    seen: Mapping[str, Mapping[str, Any]]  # the box's word on each cell; empty when it could not be asked
    files: Mapping[str, Sequence[Mapping[str, Any]]]  # by cell: {path, bytes, sha256?, mtime_ns?}
    home: frozenset[str] = frozenset()  # cells that a receipt speaks of
    waived: frozenset[str] = frozenset()
    problem: str = ""  # why the box could not be asked
    refused: Mapping[str, str] = field(default_factory=dict)  # cells that came and did not load, and why
    resume: str = "the same lease run"  # what goes on with it
    now_unix: float = 0.0  # by the box's own clock, when it was asked


@dataclass(frozen=True)
class Account:
    """One cell, accounted for or not."""

    cell: str
    word: Word
    run: str = ""
    box: str = ""
    what: str = ""
    mend: str = ""  # the command that closes the gap
    remarks: tuple[str, ...] = ()  # what looks odd and shuts nothing

    @property
    def settled(self) -> bool:
        """Whether nothing is owed for it."""
        return self.word.settled

    def as_dict(self) -> dict[str, Any]:
        """Spell for --json."""
        return {
            "cell": self.cell, "word": self.word.value, "settled": self.settled, "run": self.run, "box": self.box,
            "what": self.what, "mend": self.mend, "remarks": list(self.remarks),
        }  # fmt: skip


@dataclass(frozen=True)
class Standing:
    """A sweep as it is: what was promised, what each run answers, and how every cell is accounted for."""

    sweep: str
    roster: tuple[Cell, ...]
    parts: tuple[Part, ...]
    accounts: tuple[Account, ...]

    @property
    def settled(self) -> bool:
        """Whether every promised cell is home or waived."""
        return all(account.settled for account in self.accounts)

    def counts(self) -> dict[str, int]:
        """Count cells by their word, the commonest words in the order of the reckoning."""
        found: dict[str, int] = {}
        for account in self.accounts:
            found[account.word.value] = found.get(account.word.value, 0) + 1
        return found


@dataclass(frozen=True)
class Straggler:
    """A running cell that takes longer than its like."""

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
    bad: int  # neither done nor on its way
    left_s: float | None
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Spell for --json."""
        return {**vars(self), "running": list(self.running)}


@dataclass(frozen=True)
class CellRow:
    """One cell: its name, its parameters, what it measured, and how it stands."""

    cell: str
    params: Mapping[str, Scalar]
    metrics: Mapping[str, float]
    state: str
    from_log: bool = False  # its artifacts hold no numbers: these are the last ones that it printed


@dataclass(frozen=True)
class Spread:
    """A metric over seeds: with one value there is no sd."""

    mean: float
    sd: float | None
    n: int

    def as_dict(self) -> dict[str, Any]:
        """Spell for --json."""
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
    """A metric against one parameter: lines by the other settings, and the course of each cell where it is home."""

    metric: str
    axis: str
    lines: Mapping[str, Sequence[tuple[Scalar, float, float | None, int]]]  # x, mean, sd, n
    curves: Mapping[str, tuple[str, Sequence[tuple[float, float]]]]  # by cell: its line, and (step, value)

    def as_dict(self) -> dict[str, Any]:
        """Spell for --json."""
        keys = ("x", "mean", "sd", "n")
        lines = {name: [dict(zip(keys, point, strict=True)) for point in line] for name, line in self.lines.items()}
        return {**vars(self), "lines": lines}


@dataclass(frozen=True)
class Best:
    """The best setting by one metric, with the direction that was meant."""

    metric: str
    direction: str  # min or max
    guessed: bool
    params: Mapping[str, Scalar]
    value: Spread
    of: int
