"""The inputs of a run: the project's code, and the data that its job names, both by content."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from leasehold.lifecycle.home.home import Home
from leasehold.model.job.job import Job
from leasehold.model.run.note import Report

from .code_tree import CodeTree, read_tree
from .excluded import own_places
from .local_data import apart, read_data, refuse_collisions


def gather(home: Home, job: Job, job_file: Path, results: Path, report: Report) -> tuple[Job, CodeTree]:
    """Hash code and data; the returned job names its data by content, so that its run has a name."""
    project = job_file.absolute().parent
    memory = home.tree_memory(project)
    tree = read_tree(project, job_file.name, own_places(home, project, results), memory, apart(job, project))
    refuse_collisions(job, [str(entry["path"]) for entry in tree.entries])
    job, data = read_data(job, project, memory, report)
    return job, replace(tree, data=data)
