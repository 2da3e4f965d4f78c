"""The objects of a job on a cluster, written down without asking the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box, find_box
from leasehold.lifecycle.project.code_tree import RESULTS
from leasehold.lifecycle.project.job_yaml import read_job
from leasehold.lifecycle.project.resolve import run_id
from leasehold.lifecycle.project.run_inputs import gather
from leasehold.model.job.job import Job
from leasehold.model.run.note import silent
from leasehold.platforms.engines.kubernetes import manifest, rights
from leasehold.platforms.engines.kubernetes.address import object_name
from leasehold.platforms.engines.kubernetes.pods import PodTransport
from leasehold.platforms.engines.kubernetes.start_job import refuse_no_image

from .run_records import generation


def objects(home: Home, job_file: Path, on: str) -> list[dict[str, Any]]:
    """Return claim and Job of the next run of this job and code."""
    job = read_job(job_file)
    job, tree = gather(home, job, job_file, job_file.absolute().parent / RESULTS, silent)
    place = _place(find_box(home, on))
    first = run_id(job, tree.identity)
    number = generation(home, job, tree, again=False)
    run = first + (f"-{number}" if number else "")
    work = manifest.Workload(object_name(first), run, job, place.namespace)
    refuse_no_image(work)
    return [manifest.claim(work), manifest.job(work)]


def role_for(box: Box, job: Job) -> dict[str, Any]:
    """Return the smallest Role that a job needs in the namespace of a cluster."""
    return rights.role(job, _place(box).namespace)


def _place(box: Box) -> Any:
    assert isinstance(box.transport, PodTransport)
    return box.transport.place
