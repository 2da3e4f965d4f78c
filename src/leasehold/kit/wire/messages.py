"""The box's answers, the shape of journal events, and status.json. Only type checkers import this.

A key of a class with total=False may be missing: an older box does not send it, or there was nothing to report.
Home trusts none of it: it checks types and strips text before it shows or compares anything.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict


class Event(TypedDict):
    """A line of a run's journal: number, time, kind; each kind has more keys."""

    n: int
    t: float
    k: str


class Holder(TypedDict, total=False):
    """The home that holds a run; `unreadable` if that cannot be read."""

    home: str
    epoch: int
    who: str
    at_unix: float
    before: List[Dict[str, Any]]
    version: str
    unreadable: str


class CellSeen(TypedDict, total=False):
    """A cell's state, folded from the journal; `alive` and `held` are checked at each request."""

    state: str
    attempt: int
    tries: int
    pid: int
    started: str
    started_unix: float
    ended_unix: float
    code: Any  # an int, or None
    signal: Any  # an int, or None
    lost: bool
    unseen: bool
    why: str
    recorded: int
    judged: int
    refused: str
    stage: str
    passed: List[str]
    classed: int
    klass: str
    verdict: str
    because: str
    mark: str
    repeats: int
    saved: bool
    largest_bytes: int
    remedied: int
    remedy: str
    wait_s: float
    remedied_unix: float
    pruned: int
    preempted: int
    short: Optional[Dict[str, Any]]
    stalled_unix: float
    fast: Optional[Dict[str, Any]]
    sealed: int
    cards: str
    waits: str
    cluster: str
    refuge: Dict[str, Dict[str, Any]]
    refuge_failed: Dict[str, Dict[str, Any]]
    given: int
    alarms: Dict[str, str]
    diverged: int
    occupied: str
    began: List[Dict[str, Any]]
    leaves: str
    laid: str
    arrived: int
    came: List[Dict[str, Any]]
    alive: bool
    held: bool


class _Run(TypedDict):
    """The keys that are always present."""

    run: str
    state: str


class _Folded(_Run, total=False):
    """A run's state, folded from the journal."""

    seq: int
    cells: Dict[str, CellSeen]
    opened_unix: float
    changed_unix: float
    plan_sha256: str
    detach: str
    stops: List[str]
    reason: str
    cause: str
    restarts: int
    left: Dict[str, Dict[str, Any]]
    published: Dict[str, Any]
    refuge: Dict[str, Any]
    fenced: Dict[str, Any]


class Status(_Folded, total=False):
    """status.json: the caretaker's knowledge at its last heartbeat."""

    schema: int
    engine: str
    caretaker_pid: int
    heartbeat_unix: float
    work: Optional[Dict[str, Any]]
    readings: Dict[str, Any]
    health: Dict[str, Any]
    standing: str


class RunSeen(_Folded, total=False):
    """A run as the box sees it now: its journal, checked against locks and processes.

    An unreadable one has a `problem`, the state `unknown` and nothing else.
    """

    problem: str
    folder: str
    offset: int
    terminal: bool
    caretaker_alive: bool
    cluster_problem: str
    heartbeat_unix: Optional[float]
    proof_age_s: Optional[float]
    work: Optional[Dict[str, Any]]
    standing: Optional[str]
    health: Optional[Dict[str, Any]]
    now_unix: float
    boot: str
    holder: Holder
    journal: str
    unproven: bool
    fence: Dict[str, Any]
    progress: Optional[Dict[str, Any]]
    place: Dict[str, Any]
    notifies: bool


class StartAnswer(RunSeen, total=False):
    """The answer to `start` and `resume`: the action taken, and what the box kept or installed for the run."""

    did: str  # opened, attached, added, revived or resumed
    woken: List[Dict[str, Any]]
    kept: List[str]
    relaunch: Dict[str, Any]
    private_place: Dict[str, Any]


class StopAnswer(RunSeen, total=False):
    """The answer to `stop`."""

    did: str  # asked or nothing
    woken: List[Dict[str, Any]]
    leftovers: Any


class ClaimAnswer(RunSeen, total=False):
    """The answer to `claim`: whether this home now holds the run."""

    mine: bool


class ForceAnswer(TypedDict):
    """The answer to `end_by_force`: pids that ended, {pid, state} of those that did not, and the run's guard."""

    ended: List[int]
    left: List[Dict[str, Any]]
    guards: List[Dict[str, Any]]
    proof_age_s: Optional[float]


class Entry(TypedDict):
    """The way for a shell to enter a cell's environment."""

    argv: Any  # a list of words, which home checks
    work: str
    cell: str


class EventBatch(TypedDict, total=False):
    """Journal events up to a byte offset."""

    events: List[Dict[str, Any]]
    offset: int
    proof_age_s: Optional[float]


class LogPart(TypedDict):
    """The attempt whose log the next bytes belong to."""

    cell: str
    attempt: int
    offset: int
    bytes: int


class Followed(EventBatch, total=False):
    """One message of `follow`: a batch of events, the head of log bytes, or a beat."""

    log: LogPart
    beat_unix: float
    deserted: bool
    work: Optional[Dict[str, Any]]
    readings: Optional[Dict[str, Any]]
    health: Optional[Dict[str, Any]]


class SeriesPart(TypedDict, total=False):
    """Records of the patrol; the last part has the clock, the newest sample and the alarms."""

    records: List[Any]
    now_unix: float
    newest: Optional[Dict[str, Any]]
    health: Optional[Dict[str, Any]]


class ProbeAnswer(TypedDict, total=False):
    """The box's identity, location and free space."""

    python: str
    executable: str
    system: str
    machine: str
    host: str
    user_id: int
    boot: str
    processes: Optional[str]
    now_unix: float
    root: str
    box_id: str
    real_root: str
    private_place: Dict[str, Any]
    free_bytes: int
    free_inodes: int
    total_inodes: int
    cpus: Optional[int]


class Pruned(TypedDict, total=False):
    """What was removed, and what unfinished runs keep."""

    trees: List[str]
    kept: int
    blobs: int
    bytes: int
    data_bytes: int


class Occupants(TypedDict, total=False):
    """Processes that work in a run's folders, and those that could not be read."""

    occupants: List[Dict[str, Any]]
    occupants_more: int
    unread: List[Any]


class NoteFound(TypedDict, total=False):
    """A note of another box, its text None if it did not arrive in time; the disk that it lies on."""

    text: Optional[str]
    disk: Dict[str, Any]


class Witnessed(TypedDict, total=False):
    """The notes of home that the box sees: if any, home's results lie on the box's disk."""

    machine: Dict[str, Any]
    seen: Dict[str, str]
    below: Any
    whole: bool
    inside: Any
