"""What a cluster says of a pod, as sentences: why it waits, why it ended, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from leasehold.kit.text.safe_text import one_line

RULED = ("k8s.quota", "k8s.limit_range", "k8s.admission")  # a rule of the namespace refuses the pod itself
NEVER, WAITS, ENDED = "never", "waits", "ended"
_MOST = 300


class Happening(NamedTuple):
    """One fact: its class, the sentence, the remedy, and whether waiting may still help."""

    kind: str
    text: str
    remedy: str = ""
    outlook: str = WAITS


# (reason, words of the message) -> class, sentence, remedy, outlook; the first match counts.
_EVENTS = (
    (
        "FailedScheduling",
        r"Insufficient nvidia\.com/gpu",
        "k8s.no_gpu",
        "no node has enough free cards",
        "lease doctor K8S4: is the device plugin installed, do others hold the cards, does the autoscaler add nodes?",
        WAITS,
    ),
    (
        "FailedScheduling",
        r"Insufficient (cpu|memory|ephemeral-storage|pods)",
        "k8s.no_room",
        "no node has enough free {1}",
        "ask for less under kubernetes: or wait for others to end",
        WAITS,
    ),
    (
        "FailedScheduling",
        r"taint",
        "k8s.taint",
        "every fitting node has a taint that the pod does not accept",
        "name it under kubernetes.tolerations",
        WAITS,
    ),
    (
        "FailedScheduling",
        r"node affinity|node selector|didn't match",
        "k8s.no_node",
        "no node has the labels that the job asks for",
        "kubernetes.node_selector names them; kubectl get nodes --show-labels",
        WAITS,
    ),
    (
        "FailedScheduling",
        r"unbound|persistentvolumeclaim|volume",
        "k8s.volume",
        "its volume is not there yet",
        "kubectl describe pvc: has the class a provisioner, is it bound to another zone?",
        WAITS,
    ),
    ("FailedScheduling", r"", "k8s.unscheduled", "no node takes it", "", WAITS),
    (
        "NotTriggerScaleUp",
        r"",
        "k8s.no_scale_up",
        "the autoscaler adds no node for it",
        "its node groups are full or do not fit",
        WAITS,
    ),
    ("TriggeredScaleUp", r"", "k8s.scale_up", "the autoscaler adds a node for it", "", WAITS),
    (
        "ProvisioningFailed",
        r"",
        "k8s.volume",
        "its volume cannot be made",
        "kubernetes.storage_class names another class",
        WAITS,
    ),
    (
        "FailedAttachVolume",
        r"Multi-Attach",
        "k8s.multi_attach",
        "its volume is still attached to another node",
        "after a lost node this takes 6 minutes; delete the old pod by force only if the node is surely off",
        WAITS,
    ),
    (
        "FailedMount|FailedAttachVolume",
        r"secret .* not found",
        "k8s.no_secret",
        "its Secret is gone",
        "the identical lease run makes it again",
        WAITS,
    ),
    ("FailedMount|FailedAttachVolume", r"", "k8s.volume", "its volume cannot be mounted", "", WAITS),
    (
        "Failed|BackOff",
        r"ErrImageNeverPull|ImagePullBackOff|ErrImagePull|pull.*image|Back-off pulling",
        "k8s.image",
        "its image cannot be pulled",
        "check the name and digest under kubernetes.image, and kubernetes.pull_secrets",
        NEVER,
    ),
    (
        "FailedCreate",
        r"exceeded quota",
        "k8s.quota",
        "the namespace's quota refuses its pod",
        "ask for less, or for more quota; kubectl describe quota",
        WAITS,
    ),
    (
        "FailedCreate",
        r"maximum|minimum|LimitRange|limit to request ratio",
        "k8s.limit_range",
        "the namespace's LimitRange refuses its pod",
        "fit cpu, memory and ephemeral under kubernetes: to it; kubectl describe limits",
        NEVER,
    ),
    (
        "FailedCreate",
        r"admission webhook|denied the request|violates PodSecurity|is forbidden: (?!User)",
        "k8s.admission",
        "an admission rule refuses its pod",
        "the message names the rule; kubernetes.run_as_user helps where root is forbidden",
        NEVER,
    ),
    ("FailedCreate", r"", "k8s.create", "its pod cannot be made", "", WAITS),
    ("Evicted", r"", "k8s.evicted", "the node evicted it", "", ENDED),
    (
        "Preempted|Preempting",
        r"",
        "k8s.preempted",
        "a pod of higher priority took its place",
        "it starts again by itself",
        ENDED,
    ),
    ("OOMKilling", r"", "k8s.oom", "the kernel killed a process for memory", "raise kubernetes.memory", ENDED),
    (
        "NodeNotReady|TaintManagerEviction",
        r"",
        "k8s.node_lost",
        "its node was lost",
        "it starts again on another node",
        ENDED,
    ),
)


def of_event(event: Mapping[str, Any]) -> Happening | None:
    """Turn one event into a sentence; None where it reports nothing that a person must know."""
    reason, message = str(event.get("reason", "")), one_line(str(event.get("message", "")))
    for pattern, words, kind, text, remedy, outlook in _EVENTS:
        found = re.search(words, message) if re.fullmatch(pattern, reason) else None
        if found is not None:
            said = text.format(found.group(0), *found.groups())
            return Happening(kind, f"{said} ({reason}: {message[:_MOST]})", remedy, outlook)
    return None


def of_events(events: Iterable[Mapping[str, Any]]) -> list[Happening]:
    """Turn events into sentences, each class once, in its newest form."""
    found: dict[str, Happening] = {}
    for event in events:
        said = of_event(event)
        if said is not None:
            found.pop(said.kind, None)
            found[said.kind] = said
    return list(found.values())


def of_pod(pod: Mapping[str, Any]) -> Happening | None:
    """Return why a pod waits or ended, from its own status; None while it runs or ended well."""
    status = pod.get("status") or {}
    reason, message = str(status.get("reason") or ""), one_line(str(status.get("message") or ""))[:_MOST]
    if reason == "Evicted":
        return Happening("k8s.evicted", f"the node evicted it ({message})", _eviction_remedy(message), ENDED)
    if reason in ("NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting"):
        kind = "k8s.preempted" if reason == "Preempting" else "k8s.node_lost"
        return Happening(kind, f"its node took it away ({reason}: {message})", "it starts again by itself", ENDED)
    if reason == "DeadlineExceeded":
        return Happening("k8s.deadline", "its deadline passed", "raise kubernetes.deadline", ENDED)
    for container in status.get("containerStatuses") or []:
        said = _of_container(container)
        if said is not None:
            return said
    return None


def _of_container(container: Mapping[str, Any]) -> Happening | None:
    state = container.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    reason, message = str(waiting.get("reason") or ""), one_line(str(waiting.get("message") or ""))[:_MOST]
    if reason in ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"):
        hint = "check the name and digest under kubernetes.image, and kubernetes.pull_secrets"
        return Happening("k8s.image", f"its image cannot be pulled ({reason}: {message})", hint, NEVER)
    if reason in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError"):
        return Happening("k8s.container", f"its container cannot start ({reason}: {message})", "", NEVER)
    if ended.get("reason") == "OOMKilled":
        return Happening("k8s.oom", "it used more memory than its limit (OOMKilled)", "raise kubernetes.memory", ENDED)
    code = ended.get("exitCode")
    if ended and code not in (0, None):
        words = one_line(str(ended.get("message") or ""))[-_MOST:]
        return Happening("k8s.exit", f"it exited with {code} ({ended.get('reason')}: {words})", "", ENDED)
    return None


def _eviction_remedy(message: str) -> str:
    if "ephemeral" in message:
        return "raise kubernetes.ephemeral, or write less outside /checkpoints"
    if "memory" in message:
        return "raise kubernetes.memory"
    return "it starts again by itself"


def event_line(event: Mapping[str, Any]) -> str:
    """Format an event as `kubectl describe` does."""
    source = str((event.get("source") or {}).get("component") or "-")
    words = [str(event.get(key) or "-") for key in ("type", "reason", "lastTimestamp")]
    return f"  {words[0]}  {words[1]}  {words[2]}  {source}  {one_line(str(event.get('message') or ''))}"


def state_lines(pod: Mapping[str, Any]) -> list[str]:
    """Format why a pod waits or ended as `kubectl describe` does."""
    status = pod.get("status") or {}
    states = [status, *_states(status)]
    found = [(str(state.get("reason") or ""), one_line(str(state.get("message") or ""))[:_MOST]) for state in states]
    return [f"      Reason:       {reason}  {message}".rstrip() for reason, message in found if reason]


def _states(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    held = [container.get("state") or {} for container in status.get("containerStatuses") or []]
    return [state for one in held for state in (one.get("waiting"), one.get("terminated")) if state]
