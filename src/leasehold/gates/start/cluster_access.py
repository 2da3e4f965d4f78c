"""The audit of a cluster before anything is applied: may this account do what a run needs, are there cards at all?"""

from __future__ import annotations

from leasehold.model.job.job import Job
from leasehold.model.run.verdict import Finding, Verdict, passes, refuses, unknown, warns
from leasehold.platforms.engines.kubernetes.rights import GPU, Access


def judge_access(job: Job, seen: Access) -> Verdict:
    """Judge what the cluster answered."""
    found = [passes(f"Kubernetes {seen.version} answers"), _rights(seen)]
    if not job.kubernetes.get("image"):
        found.append(refuses("the job names no container image", "kubernetes: {image: …@sha256:…} in the job file"))
    if job.gpu is not None:
        found.append(_cards(job.gpu.count, seen))
    return Verdict("audit", tuple(found))


def _rights(seen: Access) -> Finding:
    if not seen.missing:
        return passes(f"the account may do all {seen.asked} things that a run needs")
    listed = ", ".join(f"{verb} {what}" for verb, what in seen.missing)
    hint = "lease k8s rights prints the smallest Role that suffices; ask the cluster's administrator for it"
    return refuses(f"the account may not: {listed}", hint)


def _cards(count: int, seen: Access) -> Finding:
    if seen.cards is None:
        return unknown("whether any node offers cards is unknown: this account may not list nodes", "")
    most = max((offered for _, offered in seen.cards), default=0)
    if most >= count:
        return passes(f"a node offers {most} x {GPU}")
    if most:
        return warns(f"no node offers {count} x {GPU}; the most is {most}", "fewer cards, or an autoscaled pool?")
    hint = "is the device plugin installed (kubectl get ds -A)? An autoscaled pool at zero nodes looks the same"
    return warns(f"no node offers {GPU}: the device plugin is missing, or every such node is away", hint)
