"""How far a run's promises and states are home without a receipt, from what came and what was left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leasehold.kit.files import manifest as manifests
from leasehold.kit.files.checkpoint_states import newest_whole, step_of
from leasehold.kit.files.globbing import compile_pattern
from leasehold.kit.files.paths import UnsafePath, join_checked
from leasehold.lifecycle.pull.list_reader import LeftOut
from leasehold.model.lease.lease import RunRecord
from leasehold.model.run.at_home import ArtifactAtHome, Standing, StateAtHome
from leasehold.model.run.plan import Plan

from .result_folders import Folders

_GONE = "it was removed meanwhile"

Present = Mapping[str, Sequence[dict[str, Any]]]  # by cell, the stats of promised files on the box


def artifacts_at_home(
    record: RunRecord, plan: Plan, folders: Folders, cells: Sequence[str], left: Iterable[LeftOut]
) -> tuple[ArtifactAtHome, ...]:
    """Judge every promise of these cells, which were just asked for, and of those that a receipt covers."""
    known = kept_entries(folders.evacuated, record.run)
    left = list(left)
    found = []
    for cell in plan.cells:
        for artifact in plan.job.artifacts:
            if cell in cells:
                found.append(_judged(cell, artifact.pattern, known, left))
            else:
                found.append(ArtifactAtHome(cell, artifact.pattern, Standing.VERIFIED))
    return tuple(found)


def artifacts_known(record: RunRecord, plan: Plan, folders: Folders, as_of_unix: float) -> tuple[ArtifactAtHome, ...]:
    """Judge every promise by what is home alone: the box was not asked."""
    known = kept_entries(folders.evacuated, record.run)
    settled = set(record.settled())
    found = []
    for cell in plan.cells:
        for artifact in plan.job.artifacts:
            if cell in settled and not record.waives(cell):
                found.append(ArtifactAtHome(cell, artifact.pattern, Standing.VERIFIED))
                continue
            entries = _matching(cell, artifact.pattern, known)
            standing = Standing.HOME if entries else Standing.UNKNOWN
            size = sum(int(entry["bytes"]) for entry in entries)
            found.append(ArtifactAtHome(cell, artifact.pattern, standing, len(entries), size, (), as_of_unix))
    return tuple(found)


def artifacts_beside(record: RunRecord, plan: Plan, folders: Folders, present: Present) -> tuple[ArtifactAtHome, ...]:
    """Judge every promise by what is home and what lies on the box now, by size and time; no byte is read."""
    known = kept_entries(folders.evacuated, record.run)
    settled = set(record.settled())
    found = []
    for cell in plan.cells:
        here = {key.partition("/")[2]: entry for key, entry in known.items() if key.startswith(f"{cell}/")}
        left = [
            LeftOut(cell, str(entry["path"]), "only on the box" if entry["path"] not in here else "newer on the box")
            for entry in present.get(cell, ())
            if not _equal(entry, here.get(str(entry["path"])))
        ]
        for artifact in plan.job.artifacts:
            if cell in settled and not record.waives(cell):
                found.append(ArtifactAtHome(cell, artifact.pattern, Standing.VERIFIED))
            else:
                found.append(_judged(cell, artifact.pattern, known, left))
    return tuple(found)


def _equal(there: dict[str, Any], here: dict[str, Any] | None) -> bool:
    return here is not None and all(there.get(name) == here.get(name) for name in ("bytes", "mtime_ns"))


def states_at_home(plan: Plan, folders: Folders, cells: Iterable[str]) -> tuple[StateAtHome, ...]:
    """Find the newest whole state of each cell among the copies."""
    path = plan.job.checkpoint.path
    found = []
    for cell in cells if path else ():
        root = folders.evacuated / "cells" / cell
        newest = newest_whole(str(root), path)
        state = newest.state
        if state is None:
            continue
        size = sum(one.info.st_size for one in state.files)
        place, step = str(root / state.path), step_of(str(root), state)
        passed = newest.passed_over
        found.append(StateAtHome(cell, state.path, place, step, state.made_unix, len(state.files), size, "", passed))
    return tuple(found)


def kept_entries(folder: Path, run: str) -> dict[str, dict[str, Any]]:
    """Return the manifest's entries of what was evacuated, by cell/path; only files that are still there."""
    try:
        cells = manifests.parse(json.loads((folder / "manifest.json").read_bytes()), run)["cells"]
    except (OSError, ValueError, RecursionError, manifests.ManifestError):
        return {}
    found = {}
    for cell, entries in cells.items():
        for entry in entries:
            if _is_there(folder, cell, entry):
                found[f"{cell}/{entry['path']}"] = entry
    return found


def _is_there(folder: Path, cell: str, entry: dict[str, Any]) -> bool:
    try:
        path = Path(join_checked(str(folder / "cells" / cell), str(entry.get("home", entry["path"]))))
        return path.is_file() and path.stat().st_size == entry["bytes"]
    except (OSError, UnsafePath):
        return False


def _judged(cell: str, pattern: str, known: dict[str, dict[str, Any]], left: Sequence[LeftOut]) -> ArtifactAtHome:
    entries, regex = _matching(cell, pattern, known), compile_pattern(pattern)
    here = {str(entry["path"]) for entry in entries}
    lacking = [one for one in left if one.cell == cell and regex.match(one.path)]
    lacking = [one for one in lacking if not (one.why == _GONE and here)]
    size = sum(int(entry["bytes"]) for entry in entries)
    named = tuple(
        (one.path, one.why if one.path not in here else f"{one.why}; an older copy is home") for one in lacking
    )
    if entries:
        standing = Standing.PARTLY if lacking else Standing.HOME
    else:
        unreadable = any("cannot be read" in one.why for one in lacking)
        absent = Standing.NOT_HOME if lacking else Standing.ABSENT
        standing = Standing.UNREADABLE if unreadable else absent
    return ArtifactAtHome(cell, pattern, standing, len(entries), size, named)


def _matching(cell: str, pattern: str, known: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    regex = compile_pattern(pattern)
    return [entry for key, entry in known.items() if key == f"{cell}/{entry['path']}" and regex.match(entry["path"])]
