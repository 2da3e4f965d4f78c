"""The pods of one run: the Job's pod while it lives, else a small reader pod that mounts its volume."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from leasehold.errors import BoxError, LinkError, UserError
from leasehold.model.run.note import Note, Report
from leasehold.transport.exec.kubectl import Kubectl, KubectlTransport

from . import manifest
from .address import ClusterAddress
from .client import Cluster
from .happenings import NEVER, Happening, event_line, of_events, of_pod, state_lines
from .manifest import CONTAINER, KIND, LABEL, Workload

Object = dict[str, Any]
_KNOWN_S = 5.0  # a pod's name is asked for again after so long
_READER_S = 300.0
_HOPELESS_S = 20.0  # a registry or webhook may hiccup for so long
_GONE_S = 120.0
_TICK_S = 0.25


class PodTransport(KubectlTransport):
    """Opens streams to a run's pod, wherever it is now."""

    tries = 3  # a stream that broke in its handshake is opened again

    def __init__(
        self, address: ClusterAddress, *, reads: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare; with reads, a reader pod is made where the Job's pod is gone."""
        kubectl = Kubectl(address.context, address.namespace)
        super().__init__(kubectl, self._now, CONTAINER, name=str(address))
        self.place = address
        self.cluster = Cluster(kubectl)
        self._reads = reads
        self._clock = clock
        self._known = ("", float("-inf"))
        self._work: Workload | None = None

    def named(self, name: str) -> PodTransport:
        """Return the transport to one run's objects in the same namespace."""
        return PodTransport(self.place._replace(name=name), reads=self._reads, clock=self._clock)

    def login_words(self) -> list[str]:
        """Return the command line of a shell in the Job's pod."""
        return self.kubectl.argv("exec", "-it", f"job/{self.place.name}", "-c", CONTAINER, "--", "sh")

    def forget(self) -> None:
        """Look for the pod anew at the next open."""
        self._known = ("", float("-inf"))

    def claim(self) -> Object | None:
        """Return the run's volume claim."""
        return self.cluster.get("persistentvolumeclaim", self.place.name)

    def trainers(self) -> list[Object]:
        """List the Job's pods, the oldest first."""
        found = self.cluster.listed("pods", f"{LABEL}={self.place.name},{KIND}=trainer")
        return sorted(found, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))

    def held(self) -> dict[str, Object]:
        """Return the run's claim, Job and reader pod by their kinds, with one question."""
        what = "jobs,persistentvolumeclaims,pods"
        found = self.cluster.listed(what, f"{LABEL}={self.place.name}")
        named = {(one["kind"], one["metadata"]["name"]): one for one in found}
        names = {"Job": self.place.name, "PersistentVolumeClaim": self.place.name}
        names["Pod"] = manifest.reader_name(self.place.name)
        return {kind: named[kind, name] for kind, name in names.items() if (kind, name) in named}

    def _now(self) -> str:
        if not self.place.name:
            raise UserError(
                "k8s.no_run", f"{self.name} is a cluster; a run there has an address of its own",
                hint=f"lease run --on {self.name} starts one; lease status lists them",
            )  # fmt: skip
        name, at = self._known
        if not name or self._clock() - at > _KNOWN_S:
            name = self._find()
            self._known = (name, self._clock())
        return name

    def _find(self) -> str:
        pods = self.trainers()
        live = [pod for pod in pods if is_up(pod)]
        if live:
            return str(live[-1]["metadata"]["name"])
        waiting = [pod for pod in pods if phase(pod) == "Pending"]
        if waiting:
            said = self._why(waiting[-1])
            raise LinkError("k8s.waits", f"{self.name}: the pod waits: {said.text if said else 'not started yet'}",
                            hint=said.remedy if said else "")  # fmt: skip
        if not self._reads:
            said = of_pod(pods[-1]) if pods else None
            raise LinkError("link.pod_over", f"{self.name}: no pod of it runs" + (f": {said.text}" if said else ""),
                            hint="the identical lease run goes on with it; lease pull reads its volume")  # fmt: skip
        return self.open_reader()

    def open_reader(self) -> str:
        """Make the reader pod and wait for it; the volume must exist."""
        name = manifest.reader_name(self.place.name)
        pod = self.cluster.get("pod", name)
        if pod is not None and (phase(pod) in ("Succeeded", "Failed") or pod["metadata"].get("deletionTimestamp")):
            self.cluster.delete("pod", name, wait_s=_GONE_S)
            pod = None
        if pod is None:
            self.cluster.create(manifest.reader(self._workload()))
        deadline = self._clock() + _READER_S
        while self._clock() < deadline:
            pod = self.cluster.get("pod", name)
            if pod is not None and is_up(pod):
                return name
            said = self._why(pod) if pod is not None else None
            if said is not None and said.outlook == NEVER:
                break
            time.sleep(_TICK_S)
        raise LinkError("k8s.no_reader", f"{self.name}: no reader pod could be started on its volume",
                        seen=said.text if said else "", hint=said.remedy if said else "")  # fmt: skip

    def close_reader(self) -> None:
        """End the reader pod: it may hold the volume on another node."""
        self.cluster.delete("pod", manifest.reader_name(self.place.name), wait_s=_GONE_S)
        self.forget()

    def _workload(self) -> Workload:
        """Return what the run's objects were made from: the claim keeps it, for homes that did not make it."""
        if self._work is not None:
            return self._work
        held = self.claim()
        if held is None:
            raise LinkError("k8s.no_volume", f"{self.name}: neither a pod nor a volume of it is there",
                            hint="was the claim deleted? lease waive gives up what never came home")  # fmt: skip
        return manifest.remembered(held, self.place)

    def bring_up(self, work: Workload, report: Report, limit_s: float) -> Object:
        """Wait until the Job's pod runs, and report what it waits for; raise where waiting cannot help."""
        self._work = work
        begun, told, hopeless_since = self._clock(), "", 0.0
        while True:
            pods = self.trainers()
            up = [pod for pod in pods if is_up(pod)]
            if up:
                self.forget()
                return up[-1]
            said = self._waits(pods)
            now = self._clock()
            if said is not None and said.text != told:
                told = said.text
                report(Note("waiting", f"the pod waits: {said.text}" + (f"; {said.remedy}" if said.remedy else ""),
                            {"class": said.kind}))  # fmt: skip
            hopeless_since = (hopeless_since or now) if said is not None and said.outlook == NEVER else 0.0
            if said is not None and hopeless_since and now - hopeless_since > _HOPELESS_S:
                raise BoxError(said.kind, f"{self.name}: {said.text}", hint=said.remedy)
            if now - begun > limit_s:
                hint = "it stays in the queue; the identical command goes on waiting"
                what = f"{self.name}: its pod did not start within {limit_s:.0f} s"
                raise LinkError("k8s.pending", what, seen=told, hint=hint)
            time.sleep(_TICK_S if now - begun < 10 else 4 * _TICK_S)

    def _waits(self, pods: list[Object]) -> Happening | None:
        waiting = [pod for pod in pods if phase(pod) == "Pending"]
        if waiting:
            return self._why(waiting[-1])
        job = self.cluster.get("job", self.place.name)
        if job is None:
            raise BoxError("k8s.absent", f"{self.name}: the Job is gone", hint="the identical lease run makes it again")
        failed = [c for c in (job.get("status") or {}).get("conditions") or [] if c.get("type") == "Failed"]
        if failed:
            raise BoxError("k8s.job_failed", f"{self.name}: the Job failed: {failed[0].get('reason')}: "
                           f"{failed[0].get('message')}", hint="the identical lease run makes it again")  # fmt: skip
        found = of_events(self.cluster.events(self.place.name, str(job["metadata"].get("uid", ""))))
        return found[-1] if found else None

    def _why(self, pod: Mapping[str, Any]) -> Happening | None:
        own = of_pod(pod)
        if own is not None:
            return own
        meta = pod["metadata"]
        found = of_events(self.cluster.events(str(meta["name"]), str(meta.get("uid", ""))))
        return found[-1] if found else None

    def event_lines(self) -> list[str]:
        """List what the cluster says of the run's pods, Job and claim, as `kubectl describe` words it."""
        pods = self.trainers()
        found = [line for pod in pods for line in state_lines(pod)]
        names = [self.place.name, *(str(pod["metadata"]["name"]) for pod in pods)]
        return found + [line for name in names for line in map(event_line, self.cluster.events(name))]


def phase(pod: Mapping[str, Any]) -> str:
    """Return a pod's phase."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_up(pod: Mapping[str, Any]) -> bool:
    """Return whether a command can be run in the pod's container now."""
    if phase(pod) != "Running" or pod["metadata"].get("deletionTimestamp"):
        return False
    states = (pod.get("status") or {}).get("containerStatuses") or []
    return any("running" in (one.get("state") or {}) for one in states)
