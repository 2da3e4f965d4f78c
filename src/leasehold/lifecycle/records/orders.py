"""What a person asked for, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leasehold.lifecycle.project.code_tree import CodeTree
    from leasehold.model.job.job import Job
    from leasehold.model.run.plan import Plan
    from leasehold.model.run.receipt import Receipt


@dataclass(frozen=True)
class RunOrder:
    """What `lease run` was asked for."""

    job_file: Path
    on: str = ""  # empty: the job's candidates, or this machine when it names none
    root: str = ""
    platform: str = ""  # of an ssh: address, where a person names it
    rehearse: bool = False
    price: str = ""
    balance: str = ""
    spot: bool = False
    results: Path | None = None
    detach: bool = False
    again: bool = False
    alongside: bool = False
    skip_gates: tuple[str, ...] = ()
    because: str = ""
    cells: tuple[str, ...] = ()  # of a sweep over several boxes: those that this one is given
    part: str = ""  # which of its runs that is
    generation: int = -1  # of that sweep, where it was reckoned once for all boxes
    given: Mapping[str, int] = field(default_factory=dict)  # which giving of these cells it is
    take_over: bool = False  # share out a sweep that another home has shared out so far
    prepared: tuple[Job, CodeTree] | None = None  # job and code, where they were read once for several boxes
    stored: Plan | None = None  # go on with this very plan: `lease resume`
    at_risk_s: float = 600.0  # so much finished work may lie on a box alone while the others of a sweep go on
    patience_s: float = 0.0  # how long a silent box is waited for; 0 is as long as it takes a person to notice


@dataclass(frozen=True)
class RunOutcome:
    """How `lease run` ended: the run, its state, and the receipt if its results are home."""

    run: str
    lease: str
    state: str
    export: str = ""
    receipt: Receipt | None = None


@dataclass(frozen=True)
class Evacuation:
    """What of an unfinished run is home now, and since when."""

    run: str
    place: str
    files: int
    bytes: int
    new_files: int
    at_unix: float
    state: str = "running"  # how the run stood then; of one that has ended all that it left is taken

    def as_dict(self) -> dict[str, Any]:
        """Spell for --json."""
        return dict(vars(self))


@dataclass(frozen=True)
class DownOrder:
    """What `lease down` was asked for, and how the yes is given."""

    word: str
    verb: str = ""
    approve: str = "typed"  # typed, rehearsal, or a signed request's path
    show: Callable[[Any], None] = lambda plan: None
    facts_checked: str = ""  # what a person saw when looking at doubtful facts


@dataclass(frozen=True)
class BoxOrder:
    """What `lease box add` was asked for; with replace, what is left empty stays as it was."""

    name: str
    pasted: str = ""
    platform: str = ""
    price: str = ""
    root: str = ""
    contact: bool = True
    replace: bool = False
    fingerprint: str = ""  # what the console shows; then no other key is accepted
    balance: str = ""  # what the account holds, as the console shows it
    spot: bool | None = None  # whether it can be taken away; None: not said
    durable: str = ""  # a folder on it that outlives it; results are copied there


@dataclass(frozen=True)
class BoxWord:
    """What `lease box tell` was told: things only the console shows."""

    box: str  # of the book, or of an open lease, or that lease's id
    balance: str = ""
    price: str = ""
    disks: tuple[str, ...] = ()  # TIER=SIZE


@dataclass(frozen=True)
class DiskOrder:
    """What `lease disk` was asked for."""

    box: str
    free_bytes: int = 0
    free_inodes: int = 0
    tier: str = ""  # where to free it; empty: where our folder lies
    limit_s: float = 60.0
    delete: bool = False


@dataclass(frozen=True)
class AdoptOrder:
    """What `lease adopt` was asked for: the process, its name here, where it writes and what of that is promised."""

    box: str
    pid: int = 0
    name: str = ""
    out: str = ""
    log: str = ""
    artifacts: tuple[str, ...] = ()
    root: str = ""
    results: str = ""
    price: str = ""
    young_s: float = 60.0
