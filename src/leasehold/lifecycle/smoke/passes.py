"""When a job passed its smoke on this home with the same code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.kit.files.canonical_json import digest

if TYPE_CHECKING:
    from leasehold.ledger.store import Ledger, LedgerEvent
    from leasehold.lifecycle.project.code_tree import CodeTree
    from leasehold.model.job.job import Job


def passed_before(ledger: Ledger, job: Job, tree: CodeTree) -> bool:
    """Return whether this very code and job passed its smoke on this home."""
    return passes(ledger, job, tree.identity) != []


def passes(ledger: Ledger, job: Job, code: str) -> list[LedgerEvent]:
    """List when this very job passed its smoke on this home with the code of that hash."""
    key = smoke_key(job, code)
    return [event for event in ledger.events(kind="smoke_passed") if event.data["key"] == key]


def smoke_key(job: Job, code: str) -> str:
    """Return the key of what a smoke depends on."""
    promises = [[artifact.pattern, artifact.loads, list(artifact.keys)] for artifact in job.artifacts]
    key: dict[str, Any] = {"smoke": job.smoke, "env": dict(job.env), "tree": code, "artifacts": promises}
    if job.cells:
        key["params"] = dict(job.cells[0].params)  # the inputs of the smoke
    return digest({**key, **({"data": {item.to: item.sha256 for item in job.data}} if job.data else {})})
