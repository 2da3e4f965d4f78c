"""The state that was laid into a cell for its next attempt, as the caretaker journals it."""

from __future__ import annotations

from typing import Any, Dict

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json

_FACTS = ("box", "run", "step", "state", "sha256", "place", "epoch", "made_unix", "chain", "files", "bytes")


def laid_state(folder: RunFolder, cell: str) -> Dict[str, Any]:
    """Return the state that was last laid into a cell: {state, epoch, step, box, run, place, …}; {} for none."""
    return read_json(folder.laid(cell)) or {}


def mark_of(laid: Dict[str, Any]) -> str:
    """Return what tells this laying from every other one."""
    return "%s-%s" % (laid.get("epoch"), laid.get("state"))


def to_journal(laid: Dict[str, Any]) -> Dict[str, Any]:
    """Return the facts of the event `resumed_from`."""
    return {key: laid[key] for key in _FACTS if key in laid}
