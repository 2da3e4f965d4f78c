"""Detect runs that go through Slurm; the exit code of a task that could not be requeued."""

from typing import Any, Mapping

EX_TEMPFAIL = 75  # exit code of a task of ours that could not arrange its continuation


def is_slurm(plan: Mapping[str, Any]) -> bool:
    """Return whether this run's work goes through Slurm."""
    return plan.get("engine") == "slurm"
