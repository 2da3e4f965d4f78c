"""Verbs about checkpoints: what one holds, and how often to write them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold.lifecycle.results.inspect_checkpoint import Inspection, Reckoned


def ckpt_inspect(path: Path) -> Inspection:
    """Inspect a checkpoint without executing anything in it."""
    from leasehold.lifecycle.results.inspect_checkpoint import inspect

    return inspect(path)


def cadence(where: Path | None, **words: object) -> Reckoned:
    """Compute the checkpoint cadence from a Checkpointer's folder or a job file, and from stated values."""
    from leasehold.lifecycle.project.resolve import read_job
    from leasehold.lifecycle.results.inspect_checkpoint import CadenceWishes, reckon
    from leasehold.model.job.job import CheckpointFacts

    facts, folder = CheckpointFacts(), None
    if where is not None and where.is_dir():
        folder = where
    elif where is not None:
        facts = read_job(where).checkpoint
    elif Path("lease.yaml").exists():
        facts = read_job(Path("lease.yaml")).checkpoint
    return reckon(folder, facts, CadenceWishes(**words))  # type: ignore[arg-type]
