"""Verbs about checkpoints: what one holds, how often to write them, and where they may be kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold.lifecycle.care.check_refuge import CheckedRefuge
    from leasehold.lifecycle.results.checkpoint_cadence import Reckoned
    from leasehold.lifecycle.results.inspect_checkpoint import Inspection
    from leasehold.model.job.job import CheckpointFacts


def ckpt_inspect(path: Path) -> Inspection:
    """Inspect a checkpoint without executing anything in it."""
    from leasehold.lifecycle.results.inspect_checkpoint import inspect

    return inspect(path)


def cadence(where: Path | None, **words: object) -> Reckoned:
    """Compute the checkpoint cadence from a Checkpointer's folder or a job file, and from stated values."""
    from leasehold.lifecycle.results.checkpoint_cadence import CadenceWishes, reckon

    usual = Path("lease.yaml")
    folder = where if where is not None and where.is_dir() else None
    file = where if folder is None and where is not None else usual if where is None and usual.exists() else None
    return reckon(folder, _facts(file), CadenceWishes(**words))  # type: ignore[arg-type]


def _facts(file: Path | None) -> CheckpointFacts:
    """Read what a job file says about its checkpoints; without a file, nothing is known."""
    if file is not None:
        from leasehold.lifecycle.project.job_yaml import read_job

        return read_job(file).checkpoint
    from leasehold.model.job.job import CheckpointFacts

    return CheckpointFacts()


def refuge_check(where: str, environ: Mapping[str, str]) -> CheckedRefuge:
    """Prove on a scratch key that a bucket or folder can be a refuge."""
    from leasehold.lifecycle.care.check_refuge import check_refuge

    return check_refuge(where, environ)
