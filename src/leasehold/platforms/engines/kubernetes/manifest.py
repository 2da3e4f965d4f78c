"""The objects of one run: the volume claim, the Job, the reader pod, the Secret. Pure: data in, objects out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leasehold.model.job.job import Job

from .address import ClusterAddress

CONTAINER = "train"
MOUNT = "/checkpoints"  # of the claim; the profile's state tier
ROOT = MOUNT + "/leasehold"
LABEL = "leasehold.dev/run"
KIND = "leasehold.dev/kind"
RUN_NAME = "leasehold.dev/run-name"
ASKED = "leasehold.dev/asked"  # what a reader pod needs, kept at the claim
_READER_NEEDS = ("image", "pull_secrets", "service_account", "run_as_user")
QUEUE = "kueue.x-k8s.io/queue-name"
SECRETS = "/run/leasehold/secrets"
RUN_FAILED = 3  # exit code of a pod whose run failed for good: another pod would not help
_BACKOFF_LIMIT = 20  # lost pods are replaced; the caretaker's own counter of attempts ends a failing job
_LEAST_GRACE_S = 30
_SHM_SHARE = 4
_DEFAULT_STORAGE = 10 << 30
_WAIT_TICKS = 9000  # a tenth of a second each: a home that died before it gave its order must not hold cards for ever

# Process 1 until home has brought its parcel; a later pod of the run finds it on the volume and begins at once.
BOOTSTRAP = (
    f'umask 077; R={ROOT}; mkdir -p "$HOME"; N="$LEASE_RUN"; F="$R/active/$N/pods/entry"; n=0; trap "exit 143" TERM; '
    f'while [ ! -s "$F" ]; do n=$((n+1)); if [ $n -gt {_WAIT_TICKS} ]; then echo "leasehold: no order came"; exit 0; '
    "fi; sleep 0.1 2>/dev/null || sleep 1; done; "
    '{ read -r P; read -r M; } < "$F"; exec "$P" -I -S "$M" pod "$R/active/$N"'
)
# A reader holds nothing but the volume, and leaves by itself.
READER = "trap 'exit 0' TERM; n=0; while [ $n -lt 3600 ]; do n=$((n+1)); sleep 1; done"


@dataclass(frozen=True)
class Workload:
    """What a run needs of a cluster."""

    name: str  # of all its objects
    run: str
    job: Job
    namespace: str = ""

    @property
    def asked(self) -> Mapping[str, Any]:
        """Return what the job says under `kubernetes:`."""
        return self.job.kubernetes

    @property
    def image(self) -> str:
        """Return the container image."""
        return str(self.asked.get("image") or "")


def claim(work: Workload) -> dict[str, Any]:
    """Write the claim of the volume that holds the run."""
    size = int(work.asked.get("storage") or work.job.disk_bytes or _DEFAULT_STORAGE)
    spec: dict[str, Any] = {
        "accessModes": [work.asked.get("access", "ReadWriteOnce")],
        "resources": {"requests": {"storage": quantity(size)}},
    }
    if work.asked.get("storage_class"):
        spec["storageClassName"] = work.asked["storage_class"]
    return _object("v1", "PersistentVolumeClaim", work, spec, kind="state")


def job(work: Workload) -> dict[str, Any]:
    """Write the Job."""
    spec: dict[str, Any] = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": _BACKOFF_LIMIT,
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [RUN_FAILED]}},
            ]
        },
        "template": {"metadata": {"labels": _labels(work, "trainer")}, "spec": _pod(work)},
    }
    if work.asked.get("deadline"):
        spec["activeDeadlineSeconds"] = work.asked["deadline"]
    return _object("batch/v1", "Job", work, spec, kind="trainer")


def reader(work: Workload) -> dict[str, Any]:
    """Write a small pod without cards that only mounts the volume."""
    small = {"cpu": "100m", "memory": "256Mi"}
    container = {
        **_container(work, READER, "reader"),
        "resources": {"requests": small, "limits": {"cpu": "1", "memory": "1Gi"}},
        "volumeMounts": [{"name": "state", "mountPath": MOUNT}],
    }
    spec = {**_pod_frame(work), "containers": [container], "volumes": [_state(work)], "activeDeadlineSeconds": 7200}
    pod = _object("v1", "Pod", work, spec, kind="reader")
    pod["metadata"]["name"] = reader_name(work.name)
    return pod


def reader_name(name: str) -> str:
    """Return the name of the reader pod."""
    return name + "-reader"


def secret(work: Workload, values: Mapping[str, str]) -> dict[str, Any]:
    """Write the Secret; it goes to kubectl's stdin and nowhere else."""
    value = _object("v1", "Secret", work, None, kind="secret")
    return {**value, "type": "Opaque", "stringData": {"values.json": json.dumps(dict(values))}}


def remembered(held: Mapping[str, Any], address: ClusterAddress) -> Workload:
    """Read back from a claim what a reader pod needs; another home may have made it."""
    notes = held["metadata"].get("annotations") or {}
    try:
        asked = json.loads(notes.get(ASKED) or "{}")
    except ValueError:
        asked = {}
    bare = Job(name=address.name, run="", artifacts=(), kubernetes=asked if isinstance(asked, dict) else {})
    return Workload(address.name, str(notes.get(RUN_NAME) or ""), bare, address.namespace)


def quantity(size: int) -> str:
    """Format bytes as Kubernetes counts them."""
    for factor, unit in ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def dropped(sent: Mapping[str, Any], stored: Mapping[str, Any], at: str = "spec") -> list[str]:
    """List the paths that the server did not keep: old ones drop unknown fields silently."""
    lost: list[str] = []
    for key, value in sent.items():
        path, there = f"{at}.{key}", stored.get(key)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            lost += dropped(value, there, path)
        elif isinstance(value, list) and isinstance(there, list) and len(value) == len(there):
            for number, (one, other) in enumerate(zip(value, there, strict=True)):
                if isinstance(one, Mapping) and isinstance(other, Mapping):
                    lost += dropped(one, other, f"{path}[{number}]")
        elif there is None and value not in ({}, [], "", None):
            lost.append(path)
    return lost


def _pod(work: Workload) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = [
        _state(work),
        {"name": "shm", "emptyDir": {"medium": "Memory", **_limit(_shm(work))}},
    ]
    mounts: list[dict[str, Any]] = [{"name": "state", "mountPath": MOUNT}, {"name": "shm", "mountPath": "/dev/shm"}]
    if work.job.secrets:
        volumes.append({"name": "secrets", "secret": {"secretName": work.name, "defaultMode": 0o400}})
        mounts.append({"name": "secrets", "mountPath": SECRETS, "readOnly": True})
    container = {**_container(work, BOOTSTRAP, "job"), "resources": _resources(work), "volumeMounts": mounts}
    spec = {**_pod_frame(work), "containers": [container], "volumes": volumes}
    write_s = work.job.checkpoint.write_s
    spec["terminationGracePeriodSeconds"] = max(_LEAST_GRACE_S, int(write_s * 1.5) + 20)
    if work.asked.get("node_selector"):
        spec["nodeSelector"] = dict(work.asked["node_selector"])
    tolerations = [dict(one) for one in work.asked.get("tolerations", ())]
    if work.job.gpu and not any(one.get("key") == "nvidia.com/gpu" for one in tolerations):
        tolerations.append({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})
    if tolerations:
        spec["tolerations"] = tolerations
    if work.asked.get("priority_class"):
        spec["priorityClassName"] = work.asked["priority_class"]
    return spec


def _pod_frame(work: Workload) -> dict[str, Any]:
    """Write what trainer and reader share."""
    frame: dict[str, Any] = {"restartPolicy": "Never", "automountServiceAccountToken": False}
    if work.asked.get("service_account"):
        frame["serviceAccountName"] = work.asked["service_account"]
    if work.asked.get("pull_secrets"):
        frame["imagePullSecrets"] = [{"name": name} for name in work.asked["pull_secrets"]]
    user = work.asked.get("run_as_user")
    if user:
        frame["securityContext"] = {"runAsUser": user, "runAsGroup": user, "fsGroup": user, "runAsNonRoot": True}
    return frame


def _container(work: Workload, script: str, role: str) -> dict[str, Any]:
    env = [
        {"name": "LEASE_RUN", "value": work.run},
        {"name": "LEASE_POD_ROLE", "value": role},
        {"name": "HOME", "value": ROOT + "/home"},
        {"name": "LEASE_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "LEASE_POD_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    closed = {"allowPrivilegeEscalation": False}
    return {
        "name": CONTAINER, "image": work.image, "command": ["sh", "-c", script], "env": env,
        "imagePullPolicy": "IfNotPresent", "securityContext": closed,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }  # fmt: skip


def _resources(work: Workload) -> dict[str, Any]:
    both: dict[str, str] = {}
    if work.asked.get("cpu"):
        both["cpu"] = str(work.asked["cpu"])
    if work.asked.get("memory"):
        both["memory"] = quantity(int(work.asked["memory"]))
    if work.asked.get("ephemeral"):
        both["ephemeral-storage"] = quantity(int(work.asked["ephemeral"]))
    cards = {"nvidia.com/gpu": str(work.job.gpu.count)} if work.job.gpu else {}
    return {"requests": {**both, **cards}, "limits": {**both, **cards}}


def _shm(work: Workload) -> int:
    return int(work.asked.get("shm") or int(work.asked.get("memory") or 0) // _SHM_SHARE)


def _limit(size: int) -> dict[str, str]:
    return {"sizeLimit": quantity(size >> 20 << 20)} if size else {}


def _state(work: Workload) -> dict[str, Any]:
    return {"name": "state", "persistentVolumeClaim": {"claimName": work.name}}


def _labels(work: Workload, kind: str) -> dict[str, str]:
    queue = {QUEUE: str(work.asked["queue"])} if work.asked.get("queue") and kind == "trainer" else {}
    return {LABEL: work.name, KIND: kind, "app.kubernetes.io/managed-by": "leasehold", **queue}


def _object(version: str, what: str, work: Workload, spec: dict[str, Any] | None, *, kind: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": work.name, "labels": _labels(work, kind)}
    if work.namespace:
        metadata["namespace"] = work.namespace
    asked = {key: work.asked[key] for key in _READER_NEEDS if key in work.asked}
    metadata["annotations"] = {RUN_NAME: work.run, **({ASKED: json.dumps(asked)} if kind == "state" else {})}
    body: dict[str, Any] = {"apiVersion": version, "kind": what, "metadata": metadata}
    return body if spec is None else {**body, "spec": spec}
