"""The fields of each request, beside its name `op`. Only type checkers and tests import this: nothing at run time.

A key of a class with total=False may be left out. The box trusts nothing: it checks what it reads.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence, Type, TypedDict

from .base_requests import Held, Nothing, OfCell, OfRun
from .state_requests import ClaimEpoch, Fence, FetchState, KeptIn, LayState, LeftState, OfKept, ReadKept


class Private(TypedDict, total=False):
    """Private data with a run. The box keeps secret values and notice channels readable by its user alone."""

    secrets: Mapping[str, str]
    notify: Mapping[str, Any]
    environment: Mapping[str, Any]
    gate: Mapping[str, Any]
    budget: Mapping[str, Any]
    handbook: Mapping[str, Any]
    relaunch: Sequence[str]
    who: str
    version: str
    given: Mapping[str, int]
    given_up: Sequence[str]
    patterns: Sequence[str]
    alongside: bool
    note_root: bool


class Start(Private):
    """Start a run or attach to it."""

    run: str
    home: str
    plan: Dict[str, Any]


class Resume(Private):
    """Continue an ended run, if nothing happened since seq."""

    run: str
    home: str
    seq: int


class TakeOver(Private):
    """Hold a run whose holder is still the one of this epoch."""

    run: str
    home: str
    epoch: int


class Stop(OfRun, total=False):
    """End a run; a repeated `id` is the same request."""

    id: str
    by: str
    home: str
    grace_s: float


class EndByForce(Held):
    """End a run's processes without its caretaker."""

    grace_s: float


class Claim(Held):
    """Hold a run that nobody holds."""

    who: str


class Release(Held, total=False):
    """Give cells to the box `to`: those of `withdraw` even if they have begun."""

    release: Sequence[str]
    withdraw: Sequence[str]
    to: str


class Pulled(Held):
    """The results of the ending with this sequence number are home."""

    seq: int


class Events(OfRun):
    """The journal from a byte offset on."""

    offset: int
    follow_s: float


class Tail(OfCell):
    """An attempt's log from a byte offset on."""

    attempt: int
    offset: int
    follow_s: float


class Follow(OfRun):
    """Everything since home's last position: `logs` has an offset for each `cell/attempt`."""

    offset: int
    logs: Dict[str, int]
    tail_bytes: int


class Series(OfRun):
    """The patrol's measurements of the last seconds."""

    last_s: int


class Get(OfCell):
    """A file of the area `out`, `cells` or `run`, from an offset on."""

    area: str
    path: str
    offset: int


class Items(OfRun):
    """Files [area, cell, path], or [cell, path] where they are read in full."""

    items: Sequence[Any]


class Viewed(TypedDict, total=False):
    """The box's stable view that files come from, and the checkpoint's path where only whole states are listed."""

    view: str
    states: str
    begun: Sequence[Sequence[Any]]  # the files of states that home has begun to fetch
    have: Mapping[str, Sequence[Any]]  # by cell, made_unix, bytes and number of files of the states that home has


class Chart(OfRun, Viewed):
    """List, hash and seal."""

    cells: Sequence[str]
    patterns: Sequence[str]
    quiet_s: float
    look: bool


class Fetch(Items, Viewed):
    """Ranges [cell, path, offset, length, mtime_ns]."""

    pack: bool
    frame_bytes: int


class Sums(OfCell, Viewed):
    """The hashes of one file's blocks."""

    path: str


class Manifest(OfRun):
    """Seal the files that the patterns match in these cells."""

    cells: Sequence[str]
    patterns: Sequence[str]


class Fingerprint(OfRun):
    """Stats of the files that the patterns match, and every file of the cells in `whole`."""

    patterns: Sequence[str]
    whole: Sequence[str]


class ClearOccupant(Held, total=False):
    """A process that a person declared harmless."""

    pid: int
    started: str
    boot: str


class OfTree(TypedDict):
    """A request about code or data of this name."""

    tree: str


class WantTree(OfTree):
    """Return which of these many code files are missing; the list is the request's body."""

    files: int


class Prune(TypedDict):
    """Remove unused code."""

    dry_run: bool


class Machine(TypedDict):
    """Identify the machine, and check these other roots too."""

    also: Sequence[str]


class Readings(TypedDict, total=False):
    """Measure these paths, and look for these signs (kind, value)."""

    paths: Sequence[str]
    signs: Sequence[Any]


class OfPath(TypedDict):
    """A request about one folder."""

    path: str


class Hogs(OfPath):
    """List what uses the most space there."""

    limit_s: float


class Adoptable(TypedDict):
    """Find processes older than this."""

    young_s: float


class CheckEnv(TypedDict):
    """Check what the command's interpreter imports."""

    command: str
    env: Mapping[str, str]
    modules: Sequence[str]
    platform: Mapping[str, Any]


class CheckSecrets(TypedDict):
    """Ask the trackers who owns these keys."""

    secrets: Mapping[str, str]
    env: Mapping[str, str]
    platform: Mapping[str, Any]


class SlurmRehearse(TypedDict):
    """A submission to be checked, not made."""

    slurm: Mapping[str, Any]


class SendNotices(TypedDict):
    """Notices to send at once."""

    sends: Sequence[Mapping[str, Any]]
    platform: Mapping[str, Any]


class DropNote(OfPath):
    """A note on a shared disk."""

    name: str


class LeaveNote(DropNote):
    """Write the note."""

    text: str


class FindNote(DropNote):
    """Wait for the note."""

    wait_s: float


class Witness(TypedDict):
    """Notes that home left beside its results."""

    notes: Sequence[Mapping[str, Any]]
    limit_s: float


class DiskSurvey(TypedDict):
    """List the disks, and the targets of a platform's variables."""

    paths: Sequence[str]
    variables: Any
    limit_s: float


class Quarantine(TypedDict):
    """The targets to quarantine or delete."""

    targets: Sequence[Mapping[str, Any]]
    delete: bool


class OfQuarantine(TypedDict):
    """A request about the quarantine of this name."""

    stamp: str


class GpuSurvey(TypedDict):
    """The number of samples of the cards."""

    samples: int


class EndHolders(TypedDict):
    """Processes {pid, started} that hold cards."""

    targets: Sequence[Mapping[str, Any]]
    grace_s: float


class PowerOff(TypedDict):
    """The command that turns the box off."""

    command: Sequence[str]
    home: str


class RelaunchHooks(TypedDict, total=False):
    """`list`, `remove`, or `install` for these runs by one of these ways."""

    act: str
    runs: Sequence[str]
    ways: Sequence[str]


REQUESTS: Dict[str, Type[Any]] = {
    "fence": Fence, "left_state": LeftState, "want_state": LayState, "put_state": LayState,
    "fetch_state": FetchState, "kept_in": KeptIn, "claim_epoch": ClaimEpoch, "read_kept": ReadKept,
    "prove_kept": OfKept,
    "ping": Nothing, "probe": Nothing, "runs": Nothing, "machine": Machine, "readings": Readings,
    "probe_tier": OfPath, "hogs": Hogs, "adoptable": Adoptable,
    "start": Start, "resume": Resume, "stop": Stop, "end_by_force": EndByForce, "enter": OfCell,
    "look": OfRun, "events": Events, "tail": Tail, "follow": Follow, "series": Series,
    "claim": Claim, "unclaim": Held, "take_over": TakeOver, "release": Release, "pulled": Pulled, "hush": Held,
    "get": Get, "get_many": Items, "chart": Chart, "state_chart": Chart, "fetch": Fetch, "sums": Sums,
    "manifest": Manifest, "fingerprint": Fingerprint, "prove": Items, "salvageable": OfCell,
    "occupants": OfRun, "clear_occupant": ClearOccupant,
    "have_tree": OfTree, "want_tree": WantTree, "put_tree": OfTree, "want_data": OfTree, "put_data": OfTree,
    "prune": Prune,
    "check_env": CheckEnv, "check_secrets": CheckSecrets, "slurm_rehearse": SlurmRehearse,
    "send_notices": SendNotices,
    "leave_note": LeaveNote, "find_note": FindNote, "drop_note": DropNote, "witness": Witness,
    "disk_survey": DiskSurvey, "quarantine": Quarantine, "undo_quarantine": OfQuarantine,
    "empty_quarantine": OfQuarantine, "gpu_survey": GpuSurvey, "end_holders": EndHolders,
    "power_off": PowerOff, "relaunch_hooks": RelaunchHooks,
}  # fmt: skip
