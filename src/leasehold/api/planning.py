"""Verbs that show the facts before money is spent: plan, platforms, the objects and rights of a job on a cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import UserError
from leasehold.lifecycle.home.home import Home
from leasehold.model.lease.box import K8S

if TYPE_CHECKING:
    from leasehold.model.platform.plan_sheet import PlanSheet, Wishes
    from leasehold.model.platform.profile import Profile, Source
    from leasehold.model.run.verdict import Verdict


def plan(
    home: Home, job_file: Path, asked: tuple[str, ...], wishes: Wishes, now_unix: float
) -> list[tuple[PlanSheet, Verdict, list[str]]]:
    """Resolve the job on every candidate; change nothing and connect to nothing."""
    from leasehold.lifecycle.preflight.plan_candidates import plan_candidates
    from leasehold.lifecycle.project.ignored_data import say_of_job
    from leasehold.lifecycle.project.job_yaml import read_job
    from leasehold.lifecycle.project.local_data import say_data

    job, project = read_job(job_file), job_file.absolute().parent
    data = [said for said in (say_of_job(home, job, job_file), say_data(job, project)) if said]
    made = plan_candidates(home, job, asked, wishes, (project, now_unix))
    return [(planned.sheet, planned.verdict, [*planned.warnings, *data]) for planned in made]


def plan_wishes(**words: Any) -> Wishes:
    """Parse the wishes stated on the command line."""
    from leasehold.lifecycle.preflight.plan_sheet import read_wishes

    return read_wishes(**words)


def platforms(home: Home) -> list[Profile]:
    """Load every platform's facts, with overlays."""
    shelf = home.shelf()
    return [shelf.load(name) for name in shelf.names()]


def platform(home: Home, name: str) -> Profile:
    """Load one platform's facts."""
    return home.shelf().load(name)


def doubtful_facts(home: Home, names: list[str], now_unix: float | None = None) -> list[tuple[str, str, Source, str]]:
    """List platform, fact, source and the reason to check it again: stale, contradicted or never confirmed."""
    now = time.time() if now_unix is None else now_unix
    shelf = home.shelf()
    found = []
    for name in names or shelf.names():
        for what, source in shelf.load(name).sources():
            doubt = source.doubt(now)
            if doubt:
                found.append((name, what, source, doubt))
    return found


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
