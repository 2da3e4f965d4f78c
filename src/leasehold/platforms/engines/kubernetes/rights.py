"""What this account may do in a namespace, and what the cluster offers: asked before anything is applied."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from leasehold.errors import LeaseholdError
from leasehold.model.job.job import Job

from .client import Cluster

GPU = "nvidia.com/gpu"
_AT_ONCE = 8
_REVIEW = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
# (group, resource, verbs): since 1.35 pods/exec needs `create`; before, WebSocket needed `get`.
_RULES = (
    ("batch", "jobs", ("create", "get", "list", "delete")),
    ("", "pods", ("create", "get", "list", "delete")),
    ("", "pods/exec", ("create", "get")),
    ("", "persistentvolumeclaims", ("create", "get", "list", "delete")),
    ("", "events", ("list",)),
)
_FOR_SECRETS = ("", "secrets", ("create", "get", "update", "delete"))


@dataclass(frozen=True)
class Access:
    """The answers of one namespace."""

    place: str
    missing: tuple[tuple[str, str], ...]  # verb, resource
    asked: int
    cards: tuple[tuple[str, int], ...] | None  # node, cards that it offers; None: nodes may not be listed
    version: str = ""


def rules(job: Job) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """List what a job needs."""
    return (*_RULES, *((_FOR_SECRETS,) if job.secrets else ()))


def role(job: Job, namespace: str) -> dict[str, Any]:
    """Write the smallest Role that suffices."""
    listed = [{"apiGroups": [group], "resources": [what], "verbs": list(verbs)} for group, what, verbs in rules(job)]
    metadata = {"name": "leasehold", **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": listed}


def access(cluster: Cluster, job: Job) -> Access:
    """Ask the cluster, several questions at once."""
    wanted = [(verb, group, what) for group, what, verbs in rules(job) for verb in verbs]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        version = pool.submit(cluster.version)
        cards = pool.submit(_cards, cluster) if job.gpu is not None else None
        listed = _listed(cluster)
        doubtful = [one for one in wanted if not _is_allowed(one, listed)]  # the list may be incomplete, so ask again
        pairs = [(verb, f"{what}.{group}" if group else what) for verb, group, what in doubtful]
        allowed = list(pool.map(lambda pair: cluster.may(*pair), pairs))
        missing = tuple(pair for pair, may in zip(pairs, allowed, strict=True) if not may)
        return Access(cluster.name, missing, len(wanted), cards.result() if cards else None, version.result())


def _listed(cluster: Cluster) -> list[dict[str, Any]]:
    """Ask once for all rules of this account in the namespace."""
    review = {**_REVIEW, "spec": {"namespace": cluster.kubectl.namespace or "default"}}
    return list((cluster.create(review).get("status") or {}).get("resourceRules") or [])


def _is_allowed(wanted: tuple[str, str, str], listed: list[dict[str, Any]]) -> bool:
    verb, group, what = wanted
    for rule in listed:
        held = [
            verb in (verbs := rule.get("verbs") or []) or "*" in verbs,
            group in (groups := rule.get("apiGroups") or []) or "*" in groups,
            what in (names := rule.get("resources") or []) or "*" in names,
        ]
        if all(held) and not rule.get("resourceNames"):
            return True
    return False


def _cards(cluster: Cluster) -> tuple[tuple[str, int], ...] | None:
    try:
        nodes: Iterable[dict[str, Any]] = cluster.listed("nodes")
    except LeaseholdError:  # most accounts may not list nodes
        return None
    return tuple((str(node["metadata"]["name"]), _count(node)) for node in nodes)


def _count(node: dict[str, Any]) -> int:
    offered = str(((node.get("status") or {}).get("allocatable") or {}).get(GPU, "0"))
    return int(offered) if offered.isdigit() else 0
