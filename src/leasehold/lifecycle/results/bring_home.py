"""Bring results home: the list first, then the bytes, resumable; export/.partial becomes export by one rename."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import BoxError, LeaseholdError, RunFailed, VerifyError
from leasehold.kit.files import manifest as manifests
from leasehold.kit.files.atomic import write_atomic, write_json
from leasehold.kit.files.globbing import compile_pattern
from leasehold.kit.text.safe_text import one_line
from leasehold.ledger import books
from leasehold.ledger.store import Ledger
from leasehold.lifecycle.pull.list_reader import Asked, Place, forget_marks
from leasehold.lifecycle.pull.rate import Pace
from leasehold.lifecycle.pull.session import Begun, Opened, Pulled, begin_chart, open_list, pull
from leasehold.lifecycle.pull.streams import Way
from leasehold.model.lease.lease import RunRecord
from leasehold.model.run.nonfinite import summary
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import Plan, plan_from_dict
from leasehold.model.run.receipt import Receipt

from .evidence import pull_evidence
from .git_origin import keep_origin
from .nonfinite import notes_of
from .result_folders import Folders, private
from .verify import holds_all_of, home_damage, read_receipt, sealed_entries, write_receipt

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import RunSeen
    from leasehold.platforms.contract import Engine


_FAR_FUTURE_UNIX = 1e11
_CHANGES = 3  # how often the list is read again because a file changed during the pull


@dataclass(frozen=True)
class PullWish:
    """Options of a pull: extra connections on demand, a rate limit, a byte counter, and a cache of the link's speed."""

    more: Callable[[], Engine] | None = None
    limit_bytes_per_s: float = 0.0
    pace: Pace | None = None
    remember: Callable[[float, int], None] = lambda round_trip_s, pulled_bytes: None


def bring_home(
    ledger: Ledger, record: RunRecord, engine: Engine, report: Report, wish: PullWish | None = None
) -> Receipt:
    """Pull what the run promised, verify it, and write a receipt; a second call finds it done."""
    folders = Folders(Path(record.results), record.run)
    folders.make()
    with folders.one_at_a_time(report):
        record = books.find_run(ledger, record.run)  # another lease may have brought it home while we waited
        return _Homecoming(ledger, record, folders, engine, report).bring(wish or PullWish())


def _seal_error(error: BoxError, run: str) -> VerifyError:
    hint = f"the run exited 0 without its promise: lease logs {run}; fix the job and run again, or lease waive {run}"
    return VerifyError("artifact.unsealable", error.message, seen=error.seen, hint=hint)


class _Homecoming:
    """One run whose results are being brought home."""

    def __init__(self, ledger: Ledger, record: RunRecord, folders: Folders, engine: Engine, report: Report) -> None:
        self.ledger = ledger
        self.record = record
        self.folders = folders
        self.engine = engine
        self.report = report
        self.plan = plan_from_dict(json.loads(record.plan_json))

    def bring(self, wish: PullWish) -> Receipt:
        """Pull, prove, verify, rename."""
        seen, begun = self._look()
        receipt = self._receipt(wish, seen, begun)
        if seen.get("notifies") and seen["terminal"] and not books.find_run(self.ledger, self.record.run).owed():
            with contextlib.suppress(LeaseholdError):  # the box then sends reminders a while longer
                self.engine.hold.pulled(self.record.run, self.ledger.home_id, int(seen["seq"]))
        return receipt

    def _receipt(self, wish: PullWish, seen: RunSeen, begun: Begun | None) -> Receipt:
        try:
            finished = _finished_cells(seen, self.plan)
        except RunFailed:
            if begun is not None:
                begun.talk.leave()
            raise
        cells = [
            cell for cell in finished if not self.record.waives(cell)
        ] or finished  # what was given up need not be complete
        done = _already_home(self.ledger, self.record, self.folders, self.engine, (self.plan, cells))
        if done is not None:
            held = summary(done.nonfinite)
            what = f"already home, hash-equal, loads, but holds {held}" if held else "already home and verified"
            self.report(Note("already_home", f"{what}: {self.folders.export}"))
            for note in notes_of(done.nonfinite):
                self.report(note)
            return done
        try:
            return self._bring(cells, seen, wish, begun)
        except VerifyError as error:
            if error.code == "artifact.unsealable":
                error.cells = self._incomplete(cells)
            good = [cell for cell in cells if cell not in error.cells]
            if error.cells and good:  # one broken cell keeps no other cell from coming home; its files stay aside
                self._bring(good, seen, wish)
            raise

    def _look(self) -> tuple[RunSeen, Begun | None]:
        """Read the run's state and, if it has one cell that is not home, its file list in the same round trip."""
        if len(self.plan.cells) == 1 and read_receipt(self.folders.export) is None:
            with contextlib.suppress(BoxError):  # there is no such list: the state shows why
                begun = begin_chart(self.engine, self._asked(list(self.plan.cells)), look=True)
                return self._said(begun.seen), begun
        return self._said(self.engine.observe.look(self.record.run)), None

    def _said(self, seen: RunSeen) -> RunSeen:
        """Record how the run ended; report unreadable parts of its journal and what its state rests on."""
        state = str(seen.get("state", ""))
        if seen.get("terminal") and state != self.record.state:
            facts = {"state": state, "reason": one_line(str(seen.get("reason") or "")), "seq": int(seen.get("seq", 0))}
            changed = float(seen.get("changed_unix") or 0)
            self.ledger.append("run_seen", lease=self.record.lease, run=self.record.run, changed_unix=changed, **facts)
        if seen.get("journal"):
            self.report(Note("warning", f"{self.plan.run}: {one_line(str(seen['journal']))}"))
        return seen

    def _incomplete(self, cells: list[str]) -> tuple[str, ...]:
        """Name cells that lack a part of what was promised, by the files now on the box."""
        present, _ = self.engine.proof.fingerprint(self.record.run, self.plan.patterns)
        bad = []
        for cell in cells:
            promises = _Promises(self.plan, [cell])
            try:
                promises.check((cell, str(entry["path"])) for entry in present.get(cell, ()))
                promises.complete()
            except VerifyError:
                bad.append(cell)
        return tuple(bad)

    def _bring(self, cells: list[str], seen: RunSeen, wish: PullWish, begun: Begun | None = None) -> Receipt:
        opened = self._open(cells, begun)
        way = Way(self.record.run, wish.more, opened.round_trip_s, wish.limit_bytes_per_s)
        try:
            pulled = self._pull(cells, opened, way, wish.pace or Pace(self.report))
            wish.remember(opened.round_trip_s, pulled.total_bytes)
            manifest = self._read_manifest(pulled, cells)
            pull_evidence(self.engine, self.plan, self.folders.partial, seen)
            keep_origin(self.ledger, self.record.run, self.plan.tree, self.folders.partial)
            receipt = write_receipt(
                self.folders.partial, self.plan, manifest, pulled.manifest, seen, self.report, proved=pulled.sums,
                names=pulled.home_names, box=self.record.box,
            )  # fmt: skip
        except VerifyError as error:
            if error.code != "artifact.unsealable":  # nothing that came from them is suspect
                _to_quarantine(self.ledger, self.record, self.folders, error)
            raise
        forget_marks(self.folders.partial)
        _into_export(self.ledger, self.record, self.folders, (receipt, _trained_s(seen, cells)))
        where = self.folders.export / "receipt.json"
        held = summary(receipt.nonfinite)
        named = f"; it names {held}" if held else ""
        self.report(Note("receipt", f"receipt written: {where}{named}", receipt.as_dict()))
        return receipt

    def _asked(self, cells: list[str]) -> Asked:
        return Asked(self.record.run, cells, self.plan.patterns)

    def _open(self, cells: list[str], begun: Begun | None = None) -> Opened:
        """Have the box begin its list; check it against this home's plan, not against what the box says was planned."""
        begun = begun or begin_chart(self.engine, self._asked(cells))
        try:
            return open_list(begun, _Promises(self.plan, cells))
        except BoxError as error:
            raise _seal_error(error, self.record.run) if error.code == "artifact.unsealable" else error from None

    def _pull(self, cells: list[str], opened: Opened, way: Way, pace: Pace) -> Pulled:
        place = Place(self.folders.partial, self.folders.roofs, self.folders.check_room)
        for left in reversed(range(_CHANGES)):
            try:
                return pull(self.engine, opened, place, way, pace, self.report)
            except BoxError as error:
                if error.code == "artifact.unsealable":
                    raise _seal_error(error, self.record.run) from None
                if error.code not in ("artifact.changed", "artifact.unreadable"):
                    raise
                if not left:
                    hint = "is something on the box still writing it? lease pull again"
                    raise VerifyError("artifact.changed", error.message, seen=error.seen, hint=hint) from None
                self.report(Note("changed", f"{error.message}; reading the list again"))
                opened = self._open(cells)
        raise AssertionError("the last round raises")

    def _read_manifest(self, pulled: Pulled, cells: list[str]) -> dict[str, Any]:
        """Check the sealed manifest: it must list exactly what was listed, hashed and pulled."""
        data, run = pulled.manifest, self.record.run
        try:
            manifest = manifests.parse(json.loads(data), run)
        except (ValueError, RecursionError, manifests.ManifestError) as error:
            raise VerifyError("artifact.bad_manifest", f"the box's manifest cannot be trusted: {error}") from None
        promises = _Promises(self.plan, cells)
        promises.check((cell, entry["path"]) for cell, entries in manifest["cells"].items() for entry in entries)
        promises.complete()
        sealed = {f"{cell}/{e['path']}": e["sha256"] for cell, entries in manifest["cells"].items() for e in entries}
        if sealed != pulled.sums:
            raise VerifyError("artifact.bad_manifest", "the box's manifest is not of the files that it sent")
        self.ledger.append("manifest_taken", lease=self.record.lease, run=run, sha256=sha256(data).hexdigest())
        write_atomic(str(self.folders.partial / "manifest.json"), data)
        return manifest


def _finished_cells(seen: RunSeen, plan: Plan) -> list[str]:
    cells = [cell for cell in plan.cells if seen["cells"].get(cell, {}).get("state") == "finished"]
    if cells:
        return cells
    if not seen["terminal"]:
        raise RunFailed(
            "run.unfinished",
            f"{plan.run} is {seen['state']}; nothing is finished yet",
            hint=f"lease watch {plan.run}",
        )
    raise RunFailed(
        "run.no_result",
        f"{plan.run} {seen['state']} without a finished cell: {seen['reason']}",
        hint=f"lease doctor {plan.run}; lease resume {plan.run} goes on with it; lease waive {plan.run} gives it up",
    )


class _Promises:
    """A check that every promise has its file and every file was promised, whatever patterns the box claims."""

    def __init__(self, plan: Plan, cells: list[str]) -> None:
        self._patterns = [artifact.pattern for artifact in plan.job.artifacts]
        self._regexes = [compile_pattern(pattern) for pattern in self._patterns]
        self._missing = {cell: set(range(len(self._patterns))) for cell in cells}

    def check(self, named: Iterable[tuple[str, str]]) -> None:
        """Check files, given as (cell, path)."""
        for cell, path in named:
            missing = self._missing.get(cell)
            if missing is None:
                listed = f"the manifest lists cell {one_line(cell)}, promised are {sorted(self._missing)}"
                raise VerifyError("artifact.bad_manifest", listed)
            hits = [number for number, regex in enumerate(self._regexes) if regex.match(path)]
            if not hits:
                what = f"a file of {cell} that nobody promised: {one_line(path)}"
                raise VerifyError("artifact.bad_manifest", f"the manifest lists {what}")
            missing.difference_update(hits)

    def complete(self) -> None:
        """Check that nothing is missing, once all files were given."""
        for cell, missing in self._missing.items():
            for number in sorted(missing):
                what = f"nothing of {cell} for the promised {self._patterns[number]!r}"
                raise VerifyError("artifact.bad_manifest", f"the manifest lists {what}")


def _already_home(
    ledger: Ledger, record: RunRecord, folders: Folders, engine: Engine, wanted: tuple[Plan, list[str]]
) -> Receipt | None:
    """Accept an earlier receipt only for the same promises, the same files on the box and a complete home copy."""
    plan, cells = wanted
    receipt = read_receipt(folders.export)
    if receipt is None or sorted(receipt.cells) != sorted(cells) or receipt.plan_sha256 != plan.sha256:
        return None
    if books.latest_on_run(ledger, record.run, "box_differs", "receipt_written") == "box_differs":
        return None  # the box was read in full, and its bytes differ from those at home
    present, _ = engine.proof.fingerprint(record.run, plan.patterns)
    for cell, entries in sealed_entries(folders.export).items():
        names = _compared(entries)
        if _states(entries, names) != _states(present.get(cell, ()), names):
            return None
    if home_damage(folders.export, receipt):
        return None
    if books.receipt_of(record) != receipt:  # killed between the rename and the ledger: recover it
        _record_receipt(ledger, record, folders, (receipt, _trained_s(engine.observe.look(record.run), cells)))
    return receipt


def _compared(sealed: Iterable[dict[str, Any]]) -> list[str]:
    """Name the fields that tell a file from a later version; older manifests lack ctime, and are compared without."""
    known = ("path", "bytes", "mtime_ns", "inode")
    return [*known, *(["ctime_ns"] if all("ctime_ns" in entry for entry in sealed) else [])]


def _states(entries: Iterable[dict[str, Any]], names: list[str]) -> list[tuple[Any, ...]]:
    """Return comparable states of the files on a box; two listings may be in different order."""
    return sorted(tuple(entry.get(name) for name in names) for entry in entries)


def _trained_s(seen: RunSeen, cells: list[str]) -> float:
    """Add up how long the cells that are home ran, as far as the box reports it."""
    spans = [seen["cells"].get(cell, {}) for cell in cells]
    took = (_moment(one.get("ended_unix")) - _moment(one.get("started_unix")) for one in spans)
    return round(sum(max(0.0, seconds) for seconds in took), 1)


def _moment(said: Any) -> float:
    """Parse a time from an untrusted box; an invalid one is 0."""
    plain = isinstance(said, (int, float)) and not isinstance(said, bool) and abs(said) < _FAR_FUTURE_UNIX
    return float(said) if plain else 0.0


def _to_quarantine(ledger: Ledger, record: RunRecord, folders: Folders, error: VerifyError) -> None:
    if not folders.partial.is_dir():
        return  # nothing came
    place = folders.quarantine("refused")
    private(place.parent)
    os.rename(folders.partial, place)
    write_json(str(place / "reason.json"), error.as_dict())
    error.hint = (error.hint + "; " if error.hint else "") + f"what came is kept in {place}"
    ledger.append(
        "quarantined", lease=record.lease, run=record.run, place=str(place), reason=error.message,
        cells=list(error.cells),
    )  # fmt: skip


def _into_export(ledger: Ledger, record: RunRecord, folders: Folders, proved: tuple[Receipt, float]) -> None:
    place = None
    if folders.export.exists():  # an older export of the same run: never overwritten, set aside
        place = folders.quarantine("superseded")
        private(place.parent)
        ledger.append("receipt_void", lease=record.lease, run=record.run, moved_to=str(place))
        os.rename(folders.export, place)
    os.rename(folders.partial, folders.export)
    _record_receipt(ledger, record, folders, proved)
    if place is not None and holds_all_of(folders.export, place):
        shutil.rmtree(place, ignore_errors=True)  # the sweep grew: the new export contains every file of the older one


def _record_receipt(ledger: Ledger, record: RunRecord, folders: Folders, proved: tuple[Receipt, float]) -> None:
    receipt, home_s = proved
    ledger.append(
        "receipt_written", lease=record.lease, run=record.run, receipt=receipt.as_dict(), digest=receipt.digest,
        export=str(folders.export), home_s=home_s,
    )  # fmt: skip
