"""Audit a cluster before anything is applied there: rights, cards, image."""

from __future__ import annotations

from leasehold.gates.start.cluster_access import judge_access
from leasehold.lifecycle.machine.box import Box
from leasehold.model.job.job import Job
from leasehold.model.run.verdict import Verdict


def judge_cluster(box: Box, job: Job) -> Verdict:
    """Ask a cluster whether a run could start there; nothing is applied."""
    from leasehold.platforms.engines.kubernetes.pods import PodTransport
    from leasehold.platforms.engines.kubernetes.rights import access

    assert isinstance(box.transport, PodTransport)
    return judge_access(job, access(box.transport.cluster, job))
