"""Which runs go through Slurm, and the exit code of a task that could not be requeued."""

from typing import Any, Mapping

EX_TEMPFAIL = 75  # a task of ours that could not see to its going on ends with it


def is_slurm(plan: Mapping[str, Any]) -> bool:
    """Whether this run's work goes through Slurm."""
    return plan.get("engine") == "slurm"
