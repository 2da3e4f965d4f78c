"""Bring home: the manifest first, then the bytes, resumable; export/.partial becomes export by one rename."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from leasehold.errors import BoxError, HomeError, RunFailed, VerifyError
from leasehold.kit import manifest as manifests
from leasehold.kit.atomic import write_atomic, write_json
from leasehold.kit.match import compile_pattern
from leasehold.kit.paths import UnsafePath, join_checked
from leasehold.kit.terminal import one_line
from leasehold.ledger import books
from leasehold.ledger.store import Ledger
from leasehold.model.lease import RunRecord
from leasehold.model.note import Note, Report
from leasehold.model.plan import Plan, plan_from_dict
from leasehold.model.receipt import Receipt
from leasehold.model.units import say_bytes
from leasehold.platforms.engines.caretaker import CaretakerEngine

if sys.platform != "win32":
    import fcntl

from .verify import home_damage, read_receipt, sealed_entries, write_receipt

_SPARE_BYTES = 64 << 20
_PROGRESS_S = 1.0
_MAX_LOGS = 1000


@dataclass(frozen=True)
class Folders:
    """Where a run's results stand at home."""

    results: Path
    run: str

    @property
    def export(self) -> Path:
        """Sealed and verified."""
        return self.results / "export" / self.run

    @property
    def partial(self) -> Path:
        """On its way; same filesystem as export."""
        return self.results / "export" / ".partial" / self.run

    def quarantine(self, why: str) -> Path:
        """A fresh folder for what failed."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        return self.results / "quarantine" / f"{self.run}--{why}-{stamp}-{os.urandom(2).hex()}"


def bring_home(ledger: Ledger, record: RunRecord, engine: CaretakerEngine, report: Report) -> Receipt:
    """Pull what the run promised, verify it, and leave a receipt; the second call finds it done."""
    folders = Folders(Path(record.results), record.run)
    _make_folders(folders)
    with _one_at_a_time(folders, report):
        record = books.find_run(ledger, record.run)  # another lease may have brought it home while we waited
        return _bring(ledger, record, folders, engine, report)


def _bring(ledger: Ledger, record: RunRecord, folders: Folders, engine: CaretakerEngine, report: Report) -> Receipt:
    plan = plan_from_dict(json.loads(record.plan_json))
    seen = engine.look(record.run)
    cells = _finished_cells(seen, plan)
    done = _already_home(ledger, record, folders, engine, (plan, cells))
    if done is not None:
        report(Note("already_home", f"already home and verified: {folders.export}"))
        return done
    data = _seal(engine, plan, cells)
    manifest = _read_manifest(data, plan, cells)
    ledger.append("manifest_taken", lease=record.lease, run=record.run, sha256=sha256(data).hexdigest())
    _prepare(folders, manifest, data)
    try:
        _pull_all(engine, record.run, folders.partial, manifest, report)
        _pull_evidence(engine, plan, folders.partial, seen)
        receipt = write_receipt(folders.partial, plan, manifest, data, seen, report)
    except VerifyError as error:
        _to_quarantine(ledger, record, folders, error)
        raise
    _into_export(ledger, record, folders, receipt)
    report(Note("receipt", f"receipt written: {folders.export / 'receipt.json'}", receipt.as_dict()))
    return receipt


def _finished_cells(seen: dict[str, Any], plan: Plan) -> list[str]:
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
        hint=f"lease doctor {plan.run}; the identical lease run resumes it; lease waive {plan.run} gives it up",
    )


def _seal(engine: CaretakerEngine, plan: Plan, cells: list[str]) -> bytes:
    run = plan.run
    try:
        return engine.manifest(run, cells, plan.patterns)
    except BoxError as error:
        if error.code != "artifact.unsealable":
            raise
        hint = (
            f"the run exited 0 without its promise: lease logs {run}; mend the job and run again, or lease waive {run}"
        )
        raise VerifyError("artifact.unsealable", error.message, seen=error.seen, hint=hint) from None


def _read_manifest(data: bytes, plan: Plan, cells: list[str]) -> dict[str, Any]:
    """Check the box's manifest against what this home planned, not against what the box says was planned."""
    try:
        manifest = manifests.parse(json.loads(data), plan.run)
    except (ValueError, RecursionError, manifests.ManifestError) as error:
        raise VerifyError("artifact.bad_manifest", f"the box's manifest cannot be trusted: {error}") from None
    if sorted(manifest["cells"]) != sorted(cells):
        raise VerifyError(
            "artifact.bad_manifest",
            f"the manifest lists cells {sorted(manifest['cells'])}, promised are {cells}",
        )
    for cell, entries in manifest["cells"].items():
        _check_promises(cell, [entry["path"] for entry in entries], plan)
    return manifest


def _check_promises(cell: str, paths: list[str], plan: Plan) -> None:
    """Every promise has its file, and every file was promised, whatever patterns the box says it used."""
    unclaimed = set(paths)
    for artifact in plan.job.artifacts:
        hits = set(filter(compile_pattern(artifact.pattern).match, paths))
        if not hits:
            what = f"nothing of {cell} for the promised {artifact.pattern!r}"
            raise VerifyError("artifact.bad_manifest", f"the manifest lists {what}")
        unclaimed -= hits
    if unclaimed:
        what = f"{len(unclaimed)} files of {cell} that nobody promised, first {one_line(min(unclaimed))}"
        raise VerifyError("artifact.bad_manifest", f"the manifest lists {what}")


def _already_home(
    ledger: Ledger, record: RunRecord, folders: Folders, engine: CaretakerEngine, wanted: tuple[Plan, list[str]]
) -> Receipt | None:
    """Accept an earlier receipt only for the same promises, the same files on the box and a whole home copy."""
    plan, cells = wanted
    receipt = read_receipt(folders.export)
    if receipt is None or sorted(receipt.cells) != sorted(cells) or receipt.plan_sha256 != plan.sha256:
        return None
    present, _ = engine.fingerprint(record.run, plan.patterns)
    for cell, entries in sealed_entries(folders.export).items():
        kept = [{key: entry[key] for key in ("path", "bytes", "mtime_ns", "inode")} for entry in entries]
        if kept != present.get(cell):
            return None
    if home_damage(folders.export, receipt):
        return None
    if books.receipt_of(record) != receipt:  # killed between the rename and the ledger: recover it
        _record_receipt(ledger, record, folders, receipt)
    return receipt


@contextlib.contextmanager
def _one_at_a_time(folders: Folders, report: Report) -> Iterator[None]:
    """Let only one `lease` bring this run home at once; the others wait and then find it done."""
    if sys.platform == "win32":  # two pulls of one run at once are not fenced there
        yield
        return
    with open(folders.partial.parent / f".{folders.run}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(Note("waiting", "another lease is bringing this run home; waiting for it"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_folders(folders: Folders) -> None:
    try:
        folders.partial.parent.mkdir(parents=True, exist_ok=True)
        ignore = folders.results / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
    except OSError as error:
        raise HomeError(
            "home.unwritable", f"{folders.results}: {error}", hint="choose another folder: --results DIR"
        ) from None


def _prepare(folders: Folders, manifest: dict[str, Any], data: bytes) -> None:
    folders.partial.mkdir(exist_ok=True)
    kept = folders.partial / "manifest.json"
    if kept.exists() and kept.read_bytes() != data:
        _drop_changed(folders.partial, json.loads(kept.read_bytes()), manifest)
    need = sum(_missing_bytes(folders.partial, cell, entry) for cell, entry in _entries(manifest))
    free = shutil.disk_usage(folders.partial).free
    if need + _SPARE_BYTES > free:
        raise HomeError(
            "home.disk_short",
            f"{folders.results} has {free / 1e9:.2f} GB free; the results need {need / 1e9:.2f} GB",
            hint="free some space or choose another folder with --results DIR; nothing on the box was touched",
        )
    inodes = _free_inodes(folders.partial)
    if inodes is not None and inodes < manifest["totals"]["files"] + 16:
        raise HomeError("home.inodes_short", f"{folders.results} has {inodes} inodes left", hint="remove small files")
    write_atomic(str(kept), data)


def _free_inodes(folder: Path) -> int | None:
    """Count them where the filesystem does; Windows and some filesystems do not."""
    if sys.platform == "win32":
        return None
    disk = os.statvfs(folder)
    return disk.f_favail if disk.f_files else None


def _drop_changed(partial: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Forget half-pulled files whose hash is no longer the promised one."""
    before = {(cell, entry["path"]): entry["sha256"] for cell, entry in _entries(old)}
    wanted = {(cell, entry["path"]): entry["sha256"] for cell, entry in _entries(new)}
    for (cell, path), digest in before.items():
        if wanted.get((cell, path)) != digest:
            where = join_checked(str(partial / "cells" / cell), path)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(where)
            with contextlib.suppress(OSError):  # an emptied folder may stand where a file belongs now
                os.removedirs(os.path.dirname(where))


def _entries(manifest: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(cell, entry) for cell, entries in manifest["cells"].items() for entry in entries]


def _missing_bytes(partial: Path, cell: str, entry: dict[str, Any]) -> int:
    path = Path(join_checked(str(partial / "cells" / cell), entry["path"]))
    return int(entry["bytes"]) - (path.stat().st_size if path.exists() else 0)


def _pull_all(engine: CaretakerEngine, run: str, partial: Path, manifest: dict[str, Any], report: Report) -> None:
    total = sum(entry["bytes"] for _, entry in _entries(manifest))
    progress = _Progress(total, report)
    for cell, entry in _entries(manifest):
        target = Path(join_checked(str(partial / "cells" / cell), entry["path"]))
        target.parent.mkdir(parents=True, exist_ok=True)
        if not _pull_one(engine, run, cell, entry, target, progress):
            target.unlink()  # a damaged earlier part: once more from the start
            if not _pull_one(engine, run, cell, entry, target, progress):
                raise VerifyError(
                    "artifact.hash_differs",
                    f"{cell}/{entry['path']} arrived different from the box's manifest, twice",
                    hint="is something on the box still writing it? lease pull again",
                )
    progress.end(len(_entries(manifest)))


def _pull_one(
    engine: CaretakerEngine, run: str, cell: str, entry: dict[str, Any], target: Path, progress: _Progress
) -> bool:
    """Fetch what is missing of one file, hashing as it streams; tell whether the whole is equal."""
    digest = sha256()
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    fd = os.open(target, os.O_RDWR | os.O_CREAT | careful, 0o644)
    with os.fdopen(fd, "r+b") as file:
        while block := file.read(1 << 20):
            digest.update(block)
        have = file.tell()
        progress.add(min(have, entry["bytes"]))
        if have < entry["bytes"]:
            for chunk in engine.get(run, "out", cell, entry["path"], have):
                file.write(chunk)
                digest.update(chunk)
                have += len(chunk)
                progress.add(len(chunk))
                if have > entry["bytes"]:
                    break
        file.flush()
        os.fsync(file.fileno())
    return bool(have == entry["bytes"] and digest.hexdigest() == entry["sha256"])


class _Progress:
    """Says how far and how fast, about once a second."""

    def __init__(self, total: int, report: Report) -> None:
        self._total = total
        self._report = report
        self._done = 0
        self._start = self._last = time.monotonic()

    def add(self, count: int) -> None:
        """Count bytes that are home."""
        self._done += count
        now = time.monotonic()
        if now - self._last < _PROGRESS_S:
            return
        self._last = now
        rate = self._done / max(now - self._start, 1e-6)
        left = (self._total - self._done) / max(rate, 1)
        text = f"pulled {self._done / 1e6:.1f} of {self._total / 1e6:.1f} MB, {rate / 1e6:.1f} MB/s, {left:.0f} s left"
        self._report(Note("pulling", text, {"bytes": self._done, "total": self._total}))

    def end(self, files: int) -> None:
        """Say the sum."""
        self._report(Note("pulled", f"pulled {files} {'file' if files == 1 else 'files'}, {say_bytes(self._total)}"))


def _pull_evidence(engine: CaretakerEngine, plan: Plan, partial: Path, seen: dict[str, Any]) -> None:
    """Keep the journal and the attempts' logs beside the results; they are evidence, not promises."""
    wanted = [("run", "", "journal.jsonl"), ("run", "", "plan.json")]
    for cell in plan.cells:  # never the box's own names: they would choose where we write
        last = int(seen["cells"].get(cell, {}).get("attempt", 0))
        for attempt in range(max(1, last - _MAX_LOGS + 1), last + 1):
            wanted += [("cells", cell, f"attempt-{attempt:04d}/{name}") for name in ("log", "exit.json")]
    for area, cell, path in wanted:
        target = partial / "evidence" / cell / path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(target, "wb") as file:
                for chunk in engine.get(plan.run, area, cell, path):
                    file.write(chunk)
        except BoxError:  # an attempt that vanished has no exit record
            target.unlink()


def _to_quarantine(ledger: Ledger, record: RunRecord, folders: Folders, error: VerifyError) -> None:
    place = folders.quarantine("refused")
    place.parent.mkdir(parents=True, exist_ok=True)
    os.rename(folders.partial, place)
    write_json(str(place / "reason.json"), error.as_dict())
    error.hint = (error.hint + "; " if error.hint else "") + f"what came is kept in {place}"
    ledger.append("quarantined", lease=record.lease, run=record.run, place=str(place), reason=error.message)


def _into_export(ledger: Ledger, record: RunRecord, folders: Folders, receipt: Receipt) -> None:
    if folders.export.exists():  # an older export of the same run: never overwritten, set aside
        place = folders.quarantine("superseded")
        place.parent.mkdir(parents=True, exist_ok=True)
        ledger.append("receipt_void", lease=record.lease, run=record.run, moved_to=str(place))
        os.rename(folders.export, place)
    os.rename(folders.partial, folders.export)
    _record_receipt(ledger, record, folders, receipt)


def _record_receipt(ledger: Ledger, record: RunRecord, folders: Folders, receipt: Receipt) -> None:
    ledger.append(
        "receipt_written", lease=record.lease, run=record.run, receipt=receipt.as_dict(), digest=receipt.digest,
        export=str(folders.export),
    )  # fmt: skip


def salvage(engine: CaretakerEngine, run: str, cell: str, place: Path, report: Report) -> list[dict[str, Any]]:
    """Copy everything a cell left behind into quarantine, promised or not, as far as it can be read."""
    kept = []
    for entry in engine.salvageable(run, cell):
        path = str(entry["path"])
        try:
            kept.append({"path": path, "bytes": _salvage_one(engine.get(run, "out", cell, path), place, path)})
        except (UnsafePath, BoxError) as error:
            report(Note("not_salvaged", f"not salvaged: {one_line(path)}: {one_line(str(error))}"))
    report(Note("salvaged", f"salvaged {len(kept)} files of {cell} into {place}"))
    return kept


def _salvage_one(chunks: Iterator[bytes], place: Path, path: str) -> int:
    target = Path(join_checked(str(place), path))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(target, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
    except BoxError:
        target.unlink()
        raise
    return target.stat().st_size
