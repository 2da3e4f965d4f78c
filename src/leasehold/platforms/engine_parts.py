"""The parts of an engine: each method states what a second call does, and what happens if its object is gone.

A lost connection raises LinkError from every method here, and a box's refusal BoxError or Refusal; the
result is then unknown, so each call may be repeated. A run that the box does not know raises BoxError `run.absent`,
except where a method says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from leasehold.model.run.plan import Plan

from .code_stream import Pushed, Tree
from .data_stream import Data, Lacking, Tell
from .state_stream import Laying, Missing, Source

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import (
        ClaimAnswer,
        Entry,
        EventBatch,
        Followed,
        ForceAnswer,
        NoteFound,
        Occupants,
        ProbeAnswer,
        Pruned,
        RunSeen,
        SeriesPart,
        StartAnswer,
        StopAnswer,
        Witnessed,
    )

Range = tuple[int, int]  # the first of them, and how many


class Work(Protocol):
    """Start runs and end them. They continue without the connection."""

    def start(self, plan: Plan, home: str, private: Mapping[str, Any] = ...) -> StartAnswer:
        """Start the run; a second call attaches. private: secret values and notice channels."""

    def resume(self, run: str, seq: int, home: str, private: Mapping[str, Any] = ...) -> StartAnswer:
        """Continue an ended run if nothing happened since seq; a second call attaches."""

    def stop(self, run: str, wish: Mapping[str, Any]) -> StopAnswer:
        """Ask the run to end; one that has ended stays as it is."""

    def end_by_force(self, run: str, home: str, grace_s: float) -> ForceAnswer:
        """End the run's processes without its supervisor: {ended, left, guards, proof_age_s}; again, what is left."""

    def enter(self, run: str, cell: str) -> Entry:
        """Return how a shell enters a cell's environment: {argv, work, cell}. Changes nothing."""


class RunReader(Protocol):
    """Observe a run. Nothing here changes anything, so every call may be repeated."""

    def look(self, run: str) -> RunSeen:
        """Return the run's state now; a missing run has the state `absent`."""

    def events(self, run: str, offset: int, follow_s: float) -> Iterator[EventBatch]:
        """Yield batches {events, offset} from a byte offset on, for as long as follow_s."""

    def tail(self, run: str, cell: str, attempt: int, offset: int, follow_s: float) -> Iterator[bytes]:
        """Yield an attempt's log from a byte offset on; nothing if there is no log."""

    def series(self, run: str, last_s: int = ...) -> Iterator[SeriesPart]:
        """Yield {records} measured in the last seconds (0: ever), then {now_unix, newest, health}."""


class Observation(RunReader, Protocol):
    """Observe runs where they run, and follow them."""

    def runs(self) -> list[RunSeen]:
        """List every existing run; one that cannot be read is in the list, with its `problem`."""

    def follow(self, run: str, offset: int, logs: dict[str, int], tail_bytes: int = ...) -> Iterator[Followed | bytes]:
        """Yield {events, offset}, {log}, log bytes and {beat_unix} as they arrive, until the run has ended."""


class Holding(Protocol):
    """Settle which home holds a run: only that one may end it. Another home gets Refusal `run.taken_over`."""

    def claim(self, run: str, home: str, who: str) -> ClaimAnswer:
        """Hold a run, begun or not, that nobody holds; return its state, and whether it is `mine`. May be repeated."""

    def unclaim(self, run: str, home: str) -> None:
        """Give up a claim on which nothing was begun; without one, nothing happens."""

    def take_over(self, run: str, epoch: int, home: str, private: Mapping[str, Any]) -> RunSeen:
        """Hold the run from now on, if its holder is still the one of this epoch; refused otherwise."""

    def release(self, run: str, home: str, wish: Mapping[str, Any]) -> list[str]:
        """Give cells {release, withdraw} to another box; return those that are no longer here. May be repeated."""

    def pulled(self, run: str, home: str, seq: int) -> None:
        """Note that this ending of the run is home, verified; a second note changes nothing."""

    def hush(self, run: str, home: str) -> None:
        """End the reminders about a run; a second call changes nothing."""


class Moves(Protocol):
    """Move a run's work from box to box. Every call may be repeated: it continues where it stopped."""

    def fence(self, run: str, home: str, claim: Mapping[str, Any]) -> RunSeen:
        """Let nothing of a run start here again before a later epoch; of two homes at one epoch the first wins."""

    def left(self, run: str, cell: str, facts: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
        """Hash what a stopped cell left: {id, state, beside, torn}; without a state that loads, {id: ""}."""

    def kept(self, place: Mapping[str, Any], cells: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """List the states of (run, cell) that a place seen from there keeps, the newest first; or {problem, kind}."""

    def claim(self, place: Mapping[str, Any], run: str, claim: Mapping[str, Any] | None = ...) -> dict[str, Any]:
        """Claim an epoch in a place seen from there, or only read: {highest, mine, claim}."""

    def read(self, place: Mapping[str, Any], kept: Mapping[str, Any], path: str, offset: int) -> Iterator[bytes]:
        """Yield a file of a kept state from an offset on."""

    def prove(self, place: Mapping[str, Any], kept: Mapping[str, Any]) -> list[str]:
        """Read every byte of a kept state where it lies; return what is wrong, nothing if it is whole."""

    def missing(self, laying: Laying) -> list[Missing] | None:
        """List the files of a state that are missing; None if it is laid already."""

    def send(self, laying: Laying, missing: Sequence[Missing], source: Source, tell: Tell) -> dict[str, Any]:
        """Send the missing bytes; each file's hash is checked on arrival, then the state is laid."""

    def fetch(self, laying: Laying, place: Mapping[str, Any], kept: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
        """Have the far end copy a state out of a place that it sees, and lay it."""


class Chart(Protocol):
    """A chart in progress: {files}, {listed}, {file, upto, zeros, copies} and {sums}, then the manifest's bytes."""

    def __iter__(self) -> Iterator[dict[str, Any] | bytes]: ...

    def want_sums(self, numbers: Sequence[int]) -> None:
        """Request that the far end hash these small files itself."""

    def tell(self, ranges: Sequence[Range], digests: bytes) -> None:
        """Report the hashes of these ranges of files, 32 bytes a file in order, zeros for those not known here."""

    def seal(self, ranges: Sequence[Range], digests: bytes) -> None:
        """Report that no more hashes follow; the manifest comes then."""

    def leave(self) -> None:
        """Cancel the manifest. A second call does nothing."""


class Ranges(Protocol):
    """Read files of a run. A file that is gone or has changed raises BoxError; a second call reads it again."""

    def get(self, run: str, area: str, cell: str, path: str, offset: int = ...) -> Iterator[bytes]:
        """Yield a file's bytes from offset on."""

    def get_many(self, run: str, items: Sequence[tuple[str, str, str]]) -> Iterator[tuple[int, bytes]]:
        """Yield (index, bytes) of files [area, cell, path]; each existing one begins with no bytes."""

    def chart(
        self, run: str, cells: Sequence[str], patterns: Sequence[str], quiet_s: float = ..., *, look: bool = ...
    ) -> Chart:
        """List the files. With quiet_s: only files that nobody has written for so long.

        With look: the first part is {seen}, the run's state then; it is the last one if these cells had not finished.
        """

    def live_chart(self, run: str, cells: Sequence[str], wish: Mapping[str, Any]) -> Chart:
        """List what is complete now: {patterns, quiet_s}; with {view} from a stable view, with {states} of these alone.

        {listed} then names in `left` what is not listed, as [cell, path, why].
        """

    def fetch(
        self, run: str, items: Sequence[Sequence[Any]], *, pack: bool, frame_bytes: int, view: str = ...
    ) -> Iterator[bytes]:
        """Yield the bytes of ranges [cell, path, offset, length, mtime_ns], one after the other.

        A true sixth element means: a small file whole, followed by the 32 bytes of its sha256.
        """

    def sums(self, run: str, cell: str, path: str, view: str = ...) -> list[str]:
        """Return the sha256 of each block of one file."""


class Proofs(Protocol):
    """Prove what a run left where it ran. Every call reads anew; what is gone is missing from the answer."""

    def manifest(self, run: str, cells: Sequence[str], patterns: Sequence[str] = ...) -> bytes:
        """Seal the files that these patterns (or its plan's) match in these cells; return the manifest's bytes."""

    def fingerprint(
        self, run: str, patterns: Sequence[str] = ..., whole: Sequence[str] = ...
    ) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Any]]:
        """Return artifact stats by cell, and what lives and lies beside them; for cells in `whole`, every file."""

    def prove(self, run: str, items: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        """Read files [cell, path] in full; yield {upto} bytes of these, and {entries} with their hashes."""

    def salvageable(self, run: str, cell: str) -> list[dict[str, Any]]:
        """List every plain file in a cell's output folder."""

    def occupants(self, run: str) -> Occupants:
        """List the processes that work in a run's folders: {occupants, unread}."""

    def clear_occupant(self, run: str, home: str, process: Mapping[str, Any]) -> None:
        """Record that a person declared a process harmless; a second call changes nothing."""


class Uploads(Protocol):
    """Send code and data, by content: what is there already is not sent, so a second call sends only the rest."""

    def push(self, tree: Tree) -> Pushed:
        """Send the missing parts of the code."""

    def lacking(self, data: Data) -> list[Lacking]:
        """List the files of the data that are missing; refused if there is no room for them."""

    def send(self, data: Data, lacking: Sequence[Lacking], tell: Tell) -> None:
        """Send these files; each one's hash is checked on arrival."""

    def prune(self, *, dry_run: bool) -> Pruned:
        """Remove code that no run uses: {trees, kept, blobs, bytes}; a second call finds nothing."""


class BoxReadings(Protocol):
    """Inspect the machine where runs run. Changes nothing."""

    def probe(self) -> ProbeAnswer:
        """Return the far end's identity and location."""

    def machine(self, also: Sequence[str] = ...) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return what tells this machine from others, and our other roots there: {root, runs, problem}."""

    def readings(
        self, paths: Sequence[str] | None = ..., signs: Sequence[tuple[str, str]] | None = ...
    ) -> dict[str, Any]:
        """Measure memory, cards and the disks of these paths; check for these signs of a platform."""

    def probe_tier(self, path: str) -> str:
        """Write, read and remove a small file in a folder; return what went wrong."""

    def hogs(self, path: str, limit_s: float) -> dict[str, Any]:
        """List what uses the most space below a path, as far as the limit allows."""

    def adoptable(self, young_s: float) -> Iterator[dict[str, Any]]:
        """Yield what may be training that was started without us, older than this, the likeliest first."""


class Checks(Protocol):
    """Test what a job needs before it starts. A second call tests again."""

    def environment(
        self, command: str, env: Mapping[str, str], modules: Sequence[str], platform: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Ask the interpreter that a command would use what it imports and sees."""

    def secrets(
        self, secrets: Mapping[str, str], env: Mapping[str, str], platform: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Ask the trackers who owns these keys: {answers}."""

    def scheduler(self, slurm: Mapping[str, Any]) -> dict[str, Any]:
        """Have a cluster's scheduler check a submission without making it."""

    def notices(self, sends: Sequence[Mapping[str, Any]], platform: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Send notices from there; each call sends them again."""


class DiskNotes(Protocol):
    """Small notes on disks, which show who else sees a disk."""

    def leave_note(self, path: str, name: str, text: str) -> str:
        """Write a note over the existing one; return what went wrong."""

    def find_note(self, path: str, name: str, wait_s: float) -> NoteFound:
        """Look for a note of another machine: {text, disk}, the text None if it did not arrive in time."""

    def drop_note(self, path: str, name: str) -> str:
        """Remove a note; a missing one is not an error."""

    def witness(self, notes: Sequence[Mapping[str, Any]], limit_s: float) -> Witnessed:
        """Look for notes that home left beside its results: {machine, seen, below, whole, inside}."""


class Care(Protocol):
    """Survey a machine's disks and cards, and clear them. A target that is gone by then is reported as such."""

    def disk_survey(
        self, paths: Sequence[str], variables: Mapping[str, str], limit_s: float
    ) -> Iterator[dict[str, Any]]:
        """Yield {units} and {at, entries} as they are found, then how complete the survey is."""

    def quarantine(self, targets: Sequence[Mapping[str, Any]], *, delete: bool) -> Iterator[dict[str, Any]]:
        """Quarantine or delete targets; yield the result of each, then the sum."""

    def undo_quarantine(self, stamp: str) -> Iterator[dict[str, Any]]:
        """Restore what a quarantine holds; yield the result of each target, then the sum."""

    def empty_quarantine(self, stamp: str) -> Iterator[dict[str, Any]]:
        """Delete what a quarantine holds; yield the result of each target, then the sum."""

    def gpu_survey(self, samples: int) -> Iterator[dict[str, Any]]:
        """Yield {sample, of} as the cards are sampled, then all findings."""

    def end_holders(self, targets: Sequence[Mapping[str, Any]], grace_s: float) -> list[dict[str, Any]]:
        """End processes that hold cards unused; each is checked again before."""


class Power(Protocol):
    """Turn a machine off, and have runs continue after it restarts."""

    def power_off(self, command: Sequence[str], home: str) -> None:
        """Turn the machine off a moment after the answer; refused while a run lives on it."""

    def hooks(self) -> list[dict[str, Any]]:
        """List the hooks that continue runs after a restart."""

    def install_hooks(self, runs: Sequence[str], ways: Sequence[str]) -> list[dict[str, Any]]:
        """Install a hook for each of these runs by the first method that works; a run that has one keeps it."""

    def remove_hooks(self) -> list[dict[str, Any]]:
        """Remove every hook of ours; a second call finds none."""
