"""Follow-up checks of a diagnosis on the box: which interpreter ran, and which folder fills the disk."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leasehold.doctor.finding import Finding
from leasehold.errors import BoxError, LeaseholdError
from leasehold.kit.text.safe_text import one_line
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import way_to
from leasehold.model.lease.box import K8S
from leasehold.model.lease.lease import Lease, RunRecord
from leasehold.model.values.units import say_bytes

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine


_MISSING_MODULE = "PY1"
_PYTHON = re.compile(r"\Apython3?(?= )")
_LOOK_S = 5.0
_DEEPEST = 6
_MOSTLY = 0.5  # a folder with this share of its parent's contents is searched further


def cluster_events(home: Home, lease: Lease) -> list[str]:
    """Return what the cluster of an open lease says of its pods; nothing for other boxes, or without an answer."""
    if not lease.box.startswith(K8S) or not lease.open:
        return []
    from leasehold.platforms.engines.kubernetes.pods import PodTransport

    transport = way_to(home, lease.box)
    assert isinstance(transport, PodTransport)
    with suppress(LeaseholdError):
        lines = transport.event_lines()
        return ["".join(line + "\n" for line in lines)] if lines else []
    return []


def name_interpreter(found: Finding, engine: Engine, record: RunRecord, events: Sequence[Any]) -> Finding:
    """Add to a missing module the interpreter that lacked it, and use that one in the commands."""
    if found.id != _MISSING_MODULE and _MISSING_MODULE not in found.instead_of:
        return found
    interpreter = _interpreter(engine, record, events)
    if not interpreter:
        return found
    note = "; ".join(filter(None, (found.note, f"the interpreter that ran it: {interpreter}")))
    return replace(found, note=note, commands=tuple(_PYTHON.sub(interpreter, text) for text in found.commands))


def _interpreter(engine: Engine, record: RunRecord, events: Sequence[Any]) -> str:
    recorded = [str(event.get("interpreter") or "") for event in events if event.get("k") == "env_recorded"]
    if recorded and recorded[-1].startswith("/"):
        return one_line(recorded[-1])
    plan = json.loads(record.plan_json)
    job = plan["job"]
    try:
        answer = engine.checks.environment(job["run"], job.get("env") or {}, [], plan.get("environment", {}))
    except BoxError:
        return ""
    facts = answer.get("facts")
    executable = facts.get("executable") if isinstance(facts, dict) else ""
    return one_line(str(executable or answer.get("interpreter") or ""))


def what_fills(engine: Engine, root: str) -> list[str]:
    """Descend from our folder to the largest one; report each significant step."""
    path, lines = root, []
    for _ in range(_DEEPEST):
        looked = engine.box.hogs(path, _LOOK_S)
        hogs = [hog for hog in looked.get("hogs") or () if int(hog["bytes"])]
        if not hogs:
            break
        total, first = sum(int(hog["bytes"]) for hog in hogs), hogs[0]
        lines = [f"what fills the disk below {root}: {say_bytes(int(first['bytes']))} in {first['path']}"]
        if int(first["bytes"]) < _MOSTLY * total or int(first["files"]) <= 1:
            others = ", ".join(f"{os.path.basename(hog['path'])} {say_bytes(int(hog['bytes']))}" for hog in hogs[1:4])
            lines += [f"beside it: {others}"] if others else []
            break
        path = str(first["path"])
    return [one_line(line) for line in lines]
