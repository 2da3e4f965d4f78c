"""Verbs of clusters: the objects of a job, and the rights that it needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import UserError
from leasehold.lifecycle.home.home import Home
from leasehold.model.lease.box import K8S

if TYPE_CHECKING:
    from leasehold.model.run.verdict import Verdict


def manifest(home: Home, job_file: Path, on: str) -> list[dict[str, Any]]:
    """Return the objects that `lease run --on` would create, in order; nothing is asked of the cluster."""
    from leasehold.lifecycle.launch.manifest import objects

    return objects(home, job_file, _cluster(on))


def rights(home: Home, job_file: Path, on: str) -> tuple[Verdict, dict[str, Any]]:
    """Ask the cluster what this account may do; return the verdict and the smallest Role that suffices."""
    from leasehold.lifecycle.launch.manifest import role_for
    from leasehold.lifecycle.machine.box import find_box
    from leasehold.lifecycle.preflight.cluster_audit import judge_cluster
    from leasehold.lifecycle.project.job_yaml import read_job

    job, box = read_job(job_file), find_box(home, _cluster(on))
    return judge_cluster(box, job), role_for(box, job)


def _cluster(on: str) -> str:
    if not on.startswith(K8S):
        raise UserError("k8s.not_one", f"{on!r} is no cluster", hint="--on k8s:CONTEXT or k8s:CONTEXT/NAMESPACE")
    return on
