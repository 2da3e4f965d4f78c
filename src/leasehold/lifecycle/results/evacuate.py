"""Evacuate: copy home what a running trainer has finished writing, or a stopped one left. Never a receipt."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import BoxError, RunFailed, VerifyError
from leasehold.kit.files import manifest as manifests
from leasehold.kit.files.atomic import write_atomic
from leasehold.kit.files.paths import join_checked
from leasehold.kit.text.safe_text import one_line
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

from .at_home import artifacts_at_home, kept_entries, states_at_home
from .bring_home import PullWish
from .evidence import pull_evidence
from .git_origin import keep_origin
from .result_folders import Folders, private

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import RunSeen
    from leasehold.model.run.at_home import ArtifactAtHome
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
    view = f"pull-{os.urandom(6).hex()}"
    with folders.one_at_a_time(report):
        seen = engine.observe.look(record.run)
        if seen["state"] == "absent":
            hint = f"is its disk mounted? lease doctor {record.run}"
            raise BoxError("run.absent", f"{record.box} answers and has no run {record.run}", hint=hint)
        ended = bool(seen["terminal"])
        cells = [cell for cell in plan.cells if seen["cells"].get(cell, {}).get("state") != "finished"]
        if ended:
            _keep_evidence(ledger, engine, plan, folders, seen)
        live = None if ended else {"view": view}
        asked = Asked(record.run, cells, _patterns(plan, ended=ended), 0.0 if ended else _QUIET_S, live)
        opened = open_chart(engine, asked)
        if opened.first is None:
            opened.talk.leave()
            if ended or opened.left_out:
                standing = artifacts_at_home(record, plan, folders, cells, opened.left_out)
                return _nothing_left(record, folders, seen, (standing, report))
            raise RunFailed(
                "run.unfinished",
                f"{record.run} goes on and has finished no artifact or checkpoint yet",
                hint=f"lease watch {record.run}; what it promises is looked for in $LEASE_OUT",
            )
        limit = wish.limit_bytes_per_s
        way = Way(record.run, wish.more, opened.round_trip_s, limit, lenient=True, view="" if ended else view)
        coming = folders.evacuated / _COMING
        place = Place(coming, folders.roofs, folders.check_room)
        pulled = pull(engine, opened, place, way, wish.pace or Pace(report), report)
        if not ended:  # a run that has finished nothing yet creates no folder here
            _keep_evidence(ledger, engine, plan, folders, seen)
        done = _record(ledger, record, folders, (pulled, seen), report)
        standing = artifacts_at_home(record, plan, folders, cells, pulled.left_out)
        done = replace(done, artifacts=standing, states=states_at_home(plan, folders, cells))
        report(Note("evacuated", _words(done, pulled), done.as_dict()))
        return done


def nothing_yet(record: RunRecord, engine: Engine) -> Evacuation:
    """Return what is home of a run whose unfinished cells have written nothing yet: of these, nothing."""
    folders, seen = Folders(Path(record.results), record.run), engine.observe.look(record.run)
    plan = plan_from_dict(json.loads(record.plan_json))
    cells = [cell for cell in plan.cells if seen["cells"].get(cell, {}).get("state") != "finished"]
    return replace(_evacuation(record, folders, seen), artifacts=artifacts_at_home(record, plan, folders, cells, ()))


def _keep_evidence(ledger: Ledger, engine: Engine, plan: Plan, folders: Folders, seen: RunSeen) -> None:
    """Bring the journal and the logs home, and store the code beside them."""
    pull_evidence(engine, plan, folders.evacuated, seen)
    keep_origin(ledger, plan.run, plan.tree, folders.evacuated)


def _nothing_left(
    record: RunRecord, folders: Folders, seen: RunSeen, told: tuple[tuple[ArtifactAtHome, ...], Report]
) -> Evacuation:
    """Report a run of which no file can be taken: it has at least its journal and its logs."""
    state, (standing, report) = str(seen["state"]), told
    wrote = "no file that can be taken" if any(one.left for one in standing) else "no file"
    text = f"{record.run} {state} and left {wrote} in its $LEASE_OUT; its logs and journal: {folders.evacuated}"
    if not seen["terminal"]:
        text = f"{record.run} goes on, and no file of it can be taken now"
    done = replace(_evacuation(record, folders, seen), artifacts=standing)
    report(Note("evacuated", text, done.as_dict()))
    return done


def _record(
    ledger: Ledger, record: RunRecord, folders: Folders, came: tuple[Pulled, RunSeen], report: Report
) -> Evacuation:
    """Replace older copies by what came, and record in the ledger what the box no longer holds alone."""
    pulled, seen = came
    known = kept_entries(folders.evacuated, record.run)
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
            _keep_time(target, file.mtime_ns)
    cells: dict[str, list[dict[str, Any]]] = {}
    for key, entry in sorted({**known, **fresh}.items()):
        cells.setdefault(key.split("/", 1)[0], []).append(entry)
    kept = manifests.assemble(record.run, json.loads(record.plan_json)["plan_sha256"], [], cells)
    write_atomic(str(folders.evacuated / "manifest.json"), manifests.encode(kept))
    shutil.rmtree(folders.evacuated / _COMING, ignore_errors=True)
    size = sum(int(entry["bytes"]) for entry in fresh.values())
    done = replace(_evacuation(record, folders, seen), files=len(fresh), bytes=size, new_files=len(new))
    if new:
        ledger.append(
            "evacuated", lease=record.lease, run=record.run, place=done.place, files=done.files, bytes=size,
            new=new[:_NAMED], new_files=len(new),
        )  # fmt: skip
    return done


def _evacuation(record: RunRecord, folders: Folders, seen: RunSeen) -> Evacuation:
    reason = one_line(str(seen.get("reason") or ""))
    kept = bool(seen["terminal"] or seen.get("caretaker_alive"))
    place, state = str(folders.evacuated), str(seen["state"])
    return Evacuation(record.run, place, 0, 0, 0, time.time(), state, reason=reason, kept=kept)


def _words(done: Evacuation, pulled: Pulled) -> str:
    left = f"; {len(pulled.left_out)} could not be taken" if pulled.left_out else ""
    return f"evacuated {done.files} files, {say_bytes(done.bytes)} ({done.new_files} new){left}: {done.place}"


def _keep_time(target: str, mtime_ns: int) -> None:
    """Give a copy the time at which the trainer wrote it: the newest state is found by that."""
    with contextlib.suppress(OSError):
        if os.stat(target).st_nlink == 1:  # a link is another copy's too
            os.utime(target, ns=(mtime_ns, mtime_ns))


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
