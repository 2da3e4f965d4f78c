"""Parameters of commands, and how they ended."""

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
    """The parameters of `lease run`."""

    job_file: Path
    on: str = ""  # empty: the job's candidates, or this machine when it names none
    root: str = ""
    platform: str = ""  # of an ssh: address, if a person names it
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
    cells: tuple[str, ...] = ()  # the cells given to this box in a sweep over several boxes
    part: str = ""  # which of the sweep's runs this is
    generation: int = -1  # of that sweep, if it was computed once for all boxes
    given: Mapping[str, int] = field(default_factory=dict)  # by cell, the number of its assignment
    take_over: bool = False  # distribute a sweep that another home has distributed so far
    prepared: tuple[Job, CodeTree] | None = None  # job and code, if they were read once for several boxes
    stored: Plan | None = None  # continue with this exact plan: `lease resume`
    at_risk_s: float = 600.0  # how much finished work may lie on a box alone while the sweep's others go on
    patience_s: float = 0.0  # seconds to wait for a silent box; 0 is as long as it takes a person to notice


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
    state: str = "running"  # the run's state then; everything that an ended run left is taken

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        return dict(vars(self))


@dataclass(frozen=True)
class DownOrder:
    """The parameters of `lease down`, and how it is approved."""

    word: str
    verb: str = ""
    approve: str = "typed"  # typed, rehearsal, or a signed request's path
    show: Callable[[Any], None] = lambda plan: None
    facts_checked: str = ""  # what a person stated after checking doubtful facts


@dataclass(frozen=True)
class BoxOrder:
    """The parameters of `lease box add`; with replace, what is empty stays as it was."""

    name: str
    pasted: str = ""
    platform: str = ""
    price: str = ""
    root: str = ""
    contact: bool = True
    replace: bool = False
    fingerprint: str = ""  # the host key that the console shows; then no other key is accepted
    balance: str = ""  # the account's balance, as the console shows it
    spot: bool | None = None  # whether it can be taken away; None: not stated
    durable: str = ""  # a folder on it that outlives it; results are copied there


@dataclass(frozen=True)
class BoxWord:
    """The parameters of `lease box tell`: facts that only the console shows."""

    box: str  # a box of the book or of an open lease, or that lease's id
    balance: str = ""
    price: str = ""
    disks: tuple[str, ...] = ()  # TIER=SIZE


@dataclass(frozen=True)
class DiskOrder:
    """The parameters of `lease box disk`."""

    box: str
    free_bytes: int = 0
    free_inodes: int = 0
    tier: str = ""  # where to free it; empty: where our folder lies
    limit_s: float = 60.0
    delete: bool = False


@dataclass(frozen=True)
class AdoptOrder:
    """The parameters of `lease adopt`: the process, its name here, where it writes and which files are promised."""

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
