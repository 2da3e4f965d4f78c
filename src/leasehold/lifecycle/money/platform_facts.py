"""The platform facts that a lease's meter needs; YAML is read only when a profile file has changed."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import leasehold.facts
from leasehold.kit.files.atomic import read_json, write_atomic
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.model.lease.lease import Lease
from leasehold.model.platform.billing_facts import LeaseFacts, facts_from_dict, facts_of_profile


def facts_of(home: Home, lease: Lease) -> LeaseFacts:
    """Return the current facts of the profile and its overlays."""
    where = books.project_of(home.ledger, lease.id)
    project = Path(where) if where else None
    stamp = _stamp(home.overlays(project))
    kept = home.path / "cache" / f"meter-{lease.platform}.json"
    known = read_json(str(kept)) if stamp and "/" not in lease.platform else None
    if known and known.get("stamp") == stamp:
        with contextlib.suppress(KeyError, ValueError, TypeError, ArithmeticError):  # a damaged cache is ignored
            return facts_from_dict(known["facts"])
    facts = facts_of_profile(home.shelf(project).load(lease.platform))
    if stamp:
        with contextlib.suppress(OSError):  # a full disk costs only speed
            kept.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"stamp": stamp, "facts": facts.as_dict()}, ensure_ascii=False)
            write_atomic(str(kept), text.encode("utf-8"), durable=False)
    return facts


def _stamp(overlays: tuple[Path, ...]) -> list[list[Any]]:
    """Return every profile file that could matter, with its age and size; empty when that cannot be read."""
    shipped = [Path(place) / "profiles" for place in leasehold.facts.__path__]
    found: list[list[Any]] = []
    for folder in (*shipped, *overlays):
        try:
            with os.scandir(folder) as entries:
                listed = [(entry.path, entry.stat()) for entry in entries if entry.name.endswith(".yaml")]
        except OSError:
            continue
        found += [[path, info.st_mtime_ns, info.st_size] for path, info in sorted(listed, key=lambda item: item[0])]
    return found
