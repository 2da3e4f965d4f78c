"""Bring a run's objects into being: claim, Secret and Job, each created once and read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leasehold.errors import BoxError, UserError
from leasehold.model.run.note import Note, Report

from . import manifest
from .manifest import CONTAINER, Workload
from .pods import PodTransport, phase
from .remove import remove_pods

_QUEUE_S = 1800.0
_GONE_S = 120.0


def refuse_no_image(work: Workload) -> None:
    """Refuse a job without an image: there is none that fits every job."""
    if not work.image:
        raise UserError(
            "k8s.no_image", f"{work.job.name} names no container image",
            hint="kubernetes: {image: pytorch/pytorch@sha256:…} in the job file; it needs sh and Python 3.8 or newer",
        )  # fmt: skip


def judge_tag(work: Workload, report: Report, *, metered: bool) -> None:
    """Warn where the image is a tag, which may move between two pods of a run; refuse it where an hour has a price."""
    if "@sha256:" not in work.image and metered:
        raise UserError(
            "k8s.tag", f"{work.image} is a tag, which may move between two pods of this run, and the cluster bills",
            hint="kubernetes.image by digest: NAME@sha256:…; `crane digest` or the registry's page shows it",
        )  # fmt: skip
    if "@sha256:" not in work.image:
        text = f"{work.image} is a tag, which may move between two pods of this run; name it by digest: @sha256:…"
        report(Note("warning", text, {"image": work.image}))


def start_job(to: PodTransport, work: Workload, secrets: Mapping[str, str], report: Report) -> None:
    """Create what is missing and wait until the Job's pod runs; what cannot run is removed again."""
    held = to.held()
    has_job = _is_useful(to, held.get("Job"))
    if not has_job:
        if "Pod" in held:
            to.close_reader()
        _check(to, work)
    if "PersistentVolumeClaim" not in held:
        stored = to.cluster.create(manifest.claim(work))
        asked = stored["spec"]["resources"]["requests"]["storage"]
        kind = stored["spec"].get("storageClassName") or "the default class"
        report(Note("claim", f"volume claim {work.name}: {asked} of {kind}", {"claim": work.name}))
    if secrets:
        to.cluster.replace(manifest.secret(work, secrets))
    if not has_job:
        _create_job(to, work, report)
    try:
        pod = to.bring_up(work, report, _QUEUE_S)
    except BoxError:
        remove_pods(to)
        if "PersistentVolumeClaim" not in held:  # nothing was ever written there
            to.cluster.delete("persistentvolumeclaim", work.name)
        raise
    _say_started(pod, report)


def _is_useful(to: PodTransport, job: Mapping[str, Any] | None) -> bool:
    """Return whether the Job exists and has or will have a pod; a Job that is over is deleted."""
    if job is None:
        return False
    over = [c for c in (job.get("status") or {}).get("conditions") or [] if c.get("type") in ("Complete", "Failed")]
    leaving = job["metadata"].get("deletionTimestamp") is not None
    if not leaving and not any(one.get("status") == "True" for one in over):
        return True
    to.cluster.delete("job", to.place.name, wait_s=_GONE_S)
    return False


def _check(to: PodTransport, work: Workload) -> None:
    """Have the server judge Job and pod without making them: quotas and admission rules would only tell in events."""
    job = manifest.job(work)
    pod = job["spec"]["template"]
    place = {"namespace": work.namespace} if work.namespace else {}
    metadata = {**pod["metadata"], **place, "name": f"{work.name}-check"}
    to.cluster.try_create(job, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]})


def _create_job(to: PodTransport, work: Workload, report: Report) -> None:
    sent = manifest.job(work)
    stored = to.cluster.create(sent)
    lost = manifest.dropped(sent["spec"], stored["spec"])
    report(Note("applied", f"Job {work.name} created in {to.place.context}/{to.place.namespace}",
                {"job": work.name, "dropped": lost}))  # fmt: skip
    if lost:
        text = f"this server dropped {', '.join(lost)}: it is older than these fields; the run goes on without them"
        report(Note("warning", text, {"dropped": lost}))


def _say_started(pod: Mapping[str, Any], report: Report) -> None:
    states = (pod.get("status") or {}).get("containerStatuses") or []
    image = next((str(one.get("imageID") or "") for one in states if one.get("name") == CONTAINER), "")
    node = str(pod["spec"].get("nodeName") or "?")
    name = str(pod["metadata"]["name"])
    data = {"pod": name, "node": node, "image_id": image, "phase": phase(pod)}
    report(Note("pod_up", f"pod {name} runs on node {node}" + (f", image {image}" if image else ""), data))
