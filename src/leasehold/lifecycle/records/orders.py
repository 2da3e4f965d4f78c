"""Parameters of commands, and how they ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from leasehold.model.run.at_home import ArtifactAtHome, StateAtHome, artifact_from, state_from

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.lifecycle.project.code_tree import CodeTree
    from leasehold.model.job.job import Job
    from leasehold.model.lease.lease import Lease
    from leasehold.model.platform.profile import Profile
    from leasehold.model.run.note import Report
    from leasehold.model.run.plan import Plan
    from leasehold.model.run.receipt import Receipt
    from leasehold.platforms.contract import Engine


class Where(NamedTuple):
    """A box by its name here, and our folder on it."""

    box: str
    root: str


class Arrival(NamedTuple):
    """A run about to start on a box that has passed the gates, over an open connection."""

    where: Where
    engine: Engine
    lease: Lease
    profile: Profile
    plan: Plan
    cells: tuple[str, ...]  # those that have not begun there
    results: Path
    state: str = "absent"  # of the run there, before this start


class Bring(Protocol):
    """Bring the work that a run did on other boxes to the one where it starts next."""

    def leaves(self, home: Home, plan: Plan, where: Where) -> str:
        """Return the lease that the run may leave to go there; empty: it stays where it is."""

    def lay(self, home: Home, arrival: Arrival, report: Report) -> dict[str, Any]:
        """Lay the newest states before the start; return what the box needs to know at its start. May be repeated."""

    def started(self, home: Home, arrival: Arrival, report: Report) -> None:
        """Record that the run goes on there. May be repeated."""


@dataclass(frozen=True)
class RentOptions:
    """How `lease run` may rent a box through a landlord's API."""

    wait_s: float = 0.0  # how long to ask again until one fits
    max_price: str = ""
    price: str = ""  # as the console shows it, where an API tells none
    spot: bool = False
    regions: tuple[str, ...] = ()
    ends_after_s: float = 0.0  # the landlord's own dead man's switch; 0: from the forecast
    request: str = ""  # write the request for a signature here, and rent nothing
    approval: str = ""  # a signed request


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
    bring: Bring | None = None  # fetches what the run saved on other boxes
    rent: RentOptions = RentOptions()


@dataclass(frozen=True)
class MoveOrder:
    """The parameters of `lease move`."""

    word: str
    to: str
    root: str = ""
    platform: str = ""
    price: str = ""
    grace_s: float = 30.0  # for the last save on the box that is left
    detach: bool = False
    from_start: bool = False  # begin at step 0 if no state is found
    skip_gates: tuple[str, ...] = ()
    because: str = ""


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
    artifacts: tuple[ArtifactAtHome, ...] = ()  # how far each promise is home
    states: tuple[StateAtHome, ...] = ()  # of each cell, the newest whole state that came
    reason: str = ""  # why the run ended so
    kept: bool = True  # it has ended, or its caretaker gives signs of life

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        listed = {name: [one.as_dict() for one in getattr(self, name)] for name in ("artifacts", "states")}
        return {**vars(self), **listed}


def evacuation_from(value: Mapping[str, Any]) -> Evacuation:
    """Read back the output of `as_dict`."""
    artifacts = tuple(artifact_from(one) for one in value.get("artifacts", ()))
    states = tuple(state_from(one) for one in value.get("states", ()))
    return Evacuation(**{**value, "artifacts": artifacts, "states": states})


@dataclass(frozen=True)
class PullOutcome:
    """What a pull brought: a receipt for finished cells, copies without one of the others, or both."""

    run: str
    receipt: Receipt | None = None
    evacuated: Evacuation | None = None

    @property
    def complete(self) -> bool:
        """Return whether a receipt covers all that the run promised."""
        return self.receipt is not None and self.evacuated is None


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
