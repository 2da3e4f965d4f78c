"""What a waiver covers: the files that were seen on the box when it was typed, and no others.

The list lies beside what was salvaged (`waiver.json`); the ledger has its hash. Waivers older than that list cover
what they salvaged, by path and size; one whose list is gone or changed covers no file.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from leasehold.kit.files.atomic import write_atomic
from leasehold.kit.files.canonical_json import canonical
from leasehold.lifecycle.home.home import Home
from leasehold.model.lease.lease import RunRecord

Files = list[dict[str, Any]]  # path, bytes; newer waivers also have mtime_ns, ctime_ns, inode, salvaged, sha256


def record(home: Home, run: RunRecord, facts: dict[str, Any], files: Files) -> None:
    """Write the waiver beside what was salvaged, then into the ledger, bound by its hash."""
    data = canonical({**facts, "run": run.run, "files": files})
    write_atomic(str(Path(facts["place"]) / "waiver.json"), data)
    home.ledger.append("waived", lease=run.lease, run=run.run, **facts, record_sha256=sha256(data).hexdigest())


def covered_by(home: Home, run: RunRecord) -> dict[str, Files]:
    """List what each waiver in force covers, by cell."""
    return {cell: _files(waiver) for cell, waiver in _in_force(home, run).items()}


def missed_by(home: Home, run: RunRecord) -> tuple[str, ...]:
    """List the waived cells that were given up while the box answered and did not have the run."""
    return tuple(cell for cell, waiver in _in_force(home, run).items() if waiver.get("missed") is True)


def _in_force(home: Home, run: RunRecord) -> dict[str, dict[str, Any]]:
    if not run.waived:
        return {}
    newest: dict[str, dict[str, Any]] = {}
    for event in home.ledger.events(run=run.run, kind="waived"):
        newest[str(event.data.get("cell"))] = event.data
    return {cell: newest[cell] for cell in run.waived if cell in newest}


def _files(waiver: dict[str, Any]) -> Files:
    try:
        data = (Path(str(waiver["place"])) / "waiver.json").read_bytes()
        if "record_sha256" in waiver and sha256(data).hexdigest() != waiver["record_sha256"]:
            return []
        files = json.loads(data)["files"]
        return [{**entry, "path": str(entry["path"]), "bytes": int(entry["bytes"])} for entry in files]
    except (KeyError, OSError, RecursionError, TypeError, ValueError):
        return []
