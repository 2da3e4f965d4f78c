"""Evacuate: copy home what a running trainer has finished writing, or a stopped one left. Never a receipt."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import RunFailed, VerifyError
from leasehold.kit.files import manifest as manifests
from leasehold.kit.files.atomic import write_atomic
from leasehold.kit.files.paths import join_checked
from leasehold.ledger.store import Ledger
from leasehold.lifecycle.home.result_names import HomeNames, Probe
from leasehold.lifecycle.pull.list_reader import Asked, Place
from leasehold.lifecycle.pull.rate import Pace
from leasehold.lifecycle.pull.session import Pulled, open_chart, pull
from leasehold.lifecycle.pull.streams import Way
from leasehold.lifecycle.records.orders import Evacuation
from leasehold.model.lease.lease import RunRecord
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import Plan, plan_from_dict
from leasehold.model.values.units import say_bytes

from .bring_home import PullWish
from .evidence import pull_evidence
from .git_origin import keep_origin
from .result_folders import Folders, private

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import RunSeen
    from leasehold.platforms.contract import Engine


_QUIET_S = 5.0  # a file that was not written for this long is taken to be complete
_NAMED = 20
_COMING = ".coming"


def evacuate(ledger: Ledger, record: RunRecord, engine: Engine, report: Report, wish: PullWish) -> Evacuation:
    """Copy home the complete files of a run that goes on, or all that an ended one left in its unfinished cells.

    A second call takes only what is new.
    """
    folders = Folders(Path(record.results), record.run)
    folders.make()
    private(folders.evacuated.parent)
    plan = plan_from_dict(json.loads(record.plan_json))
    with folders.one_at_a_time(report):
        seen = engine.observe.look(record.run)
        ended = bool(seen["terminal"])
        cells = [cell for cell in plan.cells if not ended or seen["cells"].get(cell, {}).get("state") != "finished"]
        if ended:
            _keep_evidence(ledger, engine, plan, folders, seen)
        asked = Asked(record.run, cells, _patterns(plan, ended=ended), 0.0 if ended else _QUIET_S)
        opened = open_chart(engine, asked)
        if opened.first is None:
            opened.talk.leave()
            if ended:
                return _nothing_left(record, folders, str(seen["state"]), report)
            raise RunFailed(
                "run.unfinished",
                f"{record.run} goes on and has finished no artifact or checkpoint yet",
                hint=f"lease watch {record.run}; what it promises is looked for in $LEASE_OUT",
            )
        way = Way(record.run, wish.more, opened.round_trip_s, wish.limit_bytes_per_s, lenient=True)
        coming = folders.evacuated / _COMING
        place = Place(coming, folders.roofs, folders.check_room)
        pulled = pull(engine, opened, place, way, wish.pace or Pace(report), report)
        if not ended:  # a run that has finished nothing yet creates no folder here
            _keep_evidence(ledger, engine, plan, folders, seen)
        return _record(ledger, record, folders, (pulled, str(seen["state"])), report)


def _keep_evidence(ledger: Ledger, engine: Engine, plan: Plan, folders: Folders, seen: RunSeen) -> None:
    """Bring the journal and the logs home, and store the code beside them."""
    pull_evidence(engine, plan, folders.evacuated, seen)
    keep_origin(ledger, plan.run, plan.tree, folders.evacuated)


def _nothing_left(record: RunRecord, folders: Folders, state: str, report: Report) -> Evacuation:
    """Report an ended run that wrote no file: it has at least its journal and its logs."""
    text = f"{record.run} {state} and left no file in its $LEASE_OUT; its logs and journal: {folders.evacuated}"
    done = Evacuation(record.run, str(folders.evacuated), 0, 0, 0, time.time(), state)
    report(Note("evacuated", text, done.as_dict()))
    return done


def _record(
    ledger: Ledger, record: RunRecord, folders: Folders, came: tuple[Pulled, str], report: Report
) -> Evacuation:
    """Replace older copies by what came, and record in the ledger what the box no longer holds alone."""
    pulled, state = came
    known = _entries(folders.evacuated, record.run)
    fresh = _sealed(pulled, record.run)
    new = sorted(key for key, entry in fresh.items() if known.get(key, {}).get("sha256") != entry["sha256"])
    names = _names(known, folders.evacuated)
    for file in pulled.files:
        if not file.skipped:
            name = names.of(file.cell, file.path)
            if name != file.path:
                fresh[file.key]["home"] = name
            target = join_checked(str(folders.evacuated / "cells" / file.cell), name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.replace(file.target, target)  # only a proved copy replaces the one before it
    cells: dict[str, list[dict[str, Any]]] = {}
    for key, entry in sorted({**known, **fresh}.items()):
        cells.setdefault(key.split("/", 1)[0], []).append(entry)
    kept = manifests.assemble(record.run, json.loads(record.plan_json)["plan_sha256"], [], cells)
    write_atomic(str(folders.evacuated / "manifest.json"), manifests.encode(kept))
    shutil.rmtree(folders.evacuated / _COMING, ignore_errors=True)
    size = sum(int(entry["bytes"]) for entry in fresh.values())
    done = Evacuation(record.run, str(folders.evacuated), len(fresh), size, len(new), time.time(), state)
    if new:
        ledger.append(
            "evacuated", lease=record.lease, run=record.run, place=done.place, files=done.files, bytes=size,
            new=new[:_NAMED], new_files=len(new),
        )  # fmt: skip
    skipped = sum(1 for file in pulled.files if file.skipped)
    left = f"; {skipped} changed meanwhile and were left" if skipped else ""
    text = f"evacuated {done.files} files, {say_bytes(size)} ({len(new)} new){left}: {done.place}"
    report(Note("evacuated", text, done.as_dict()))
    return done


def _sealed(pulled: Pulled, run: str) -> dict[str, dict[str, Any]]:
    """Check the box's manifest of what came; return its entries of the proved files."""
    try:
        cells = manifests.parse(json.loads(pulled.manifest), run)["cells"]
    except (ValueError, RecursionError, manifests.ManifestError) as error:
        raise VerifyError("artifact.bad_manifest", f"the box's manifest cannot be trusted: {error}") from None
    entries = {f"{cell}/{entry['path']}": entry for cell, found in cells.items() for entry in found}
    if any(entries.get(key, {}).get("sha256") != digest for key, digest in pulled.sums.items()):
        raise VerifyError("artifact.bad_manifest", "the box's manifest is not of the files that it sent")
    return {key: entries[key] for key in pulled.sums}


def _names(known: dict[str, dict[str, Any]], folder: Path) -> HomeNames:
    """Keep the names of files that were evacuated before."""
    names = HomeNames(Probe(folder))
    for key, entry in known.items():
        names.keep(key.split("/", 1)[0], entry["path"], str(entry.get("home", entry["path"])))
    return names


def _patterns(plan: Plan, *, ended: bool) -> list[str]:
    """Return the promised patterns and declared checkpoints; `**` for an ended run whose job declares no scratch."""
    path = plan.job.checkpoint.path.strip("/")
    if ended and not plan.job.scratch:
        return ["**"]
    return [*plan.patterns, *([path, f"{path}/**"] if path else [])]


def _entries(folder: Path, run: str) -> dict[str, dict[str, Any]]:
    """Return the entries of what was evacuated before, by cell/path."""
    try:
        cells = manifests.parse(json.loads((folder / "manifest.json").read_bytes()), run)["cells"]
    except (OSError, ValueError, RecursionError, manifests.ManifestError):
        return {}
    return {f"{cell}/{entry['path']}": entry for cell, entries in cells.items() for entry in entries}
