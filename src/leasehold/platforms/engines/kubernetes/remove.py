"""Delete a run's objects, in two layers: Job and pods, then Secret and volume claim."""

from __future__ import annotations

from leasehold.platforms.contract import BoxState

from .manifest import LABEL
from .pods import PodTransport

_GONE_S = 120.0


def remove_pods(to: PodTransport) -> None:
    """Delete the Job with its pods and the reader pod, and wait until they are gone."""
    name = to.place.name
    to.cluster.delete("job", name)
    to.close_reader()
    to.cluster.ask(
        ["delete", "pods", f"--selector={LABEL}={name}", "--ignore-not-found", f"--timeout={int(_GONE_S)}s"],
        limit_s=_GONE_S + 30,
    )
    to.forget()


def remove_volume(to: PodTransport) -> None:
    """Delete the Secret and the volume claim; what becomes of the disk is up to its class."""
    to.cluster.delete("secret", to.place.name)
    to.cluster.delete("persistentvolumeclaim", to.place.name, wait_s=_GONE_S)


def left(to: PodTransport) -> BoxState:
    """Ask the cluster what is left of a run."""
    name = to.place.name
    if to.cluster.listed("pods", f"{LABEL}={name}") or to.cluster.get("job", name) is not None:
        return BoxState.HELD
    return BoxState.PARKED if to.claim() is not None else BoxState.GONE
