"""A run on a cluster: its objects are named after it, and its pod is brought up before anything can be asked there."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from leasehold.errors import LeaseholdError, LinkError
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box, closed_on_failure
from leasehold.lifecycle.preflight.cluster_audit import judge_cluster
from leasehold.lifecycle.preflight.gatekeeper import Gatekeeper, Skips
from leasehold.lifecycle.project.code_tree import CodeTree
from leasehold.lifecycle.project.resolve import run_id
from leasehold.model.job.job import Job
from leasehold.model.lease.box import K8S
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasehold.platforms.contract import Engine
    from leasehold.platforms.engines.kubernetes.pods import PodTransport

_STARTS = ("absent", "failed", "stopped", "running", "stopping", "opened")  # with no pod: a Job's pod must go on


def box_for_job(box: Box, job: Job, tree: CodeTree) -> Box:
    """Return the box that a job has on a cluster: its own objects there. Any other box is returned as it is."""
    if not box.name.startswith(K8S):
        return box
    from leasehold.platforms.engines.kubernetes.address import object_name

    transport = _pods(box).named(object_name(run_id(job, tree.identity)))
    return replace(box, name=transport.name, transport=transport)


@dataclass(frozen=True)
class PodWish:
    """What a run needs before its pod is up."""

    plan: Plan
    secrets: Mapping[str, str]
    metered: bool = False  # an hour has a price
    skips: Skips = Skips()


def open_on_cluster(home: Home, box: Box, wish: PodWish, gatekeeper: Gatekeeper) -> Engine | None:
    """Bring the run's pod up and connect to it, or to its finished results; None where the box is no cluster."""
    if not box.name.startswith(K8S):
        return None
    from leasehold.platforms.engines.kubernetes.manifest import Workload
    from leasehold.platforms.engines.kubernetes.pods import is_up
    from leasehold.platforms.engines.kubernetes.start_job import judge_tag, refuse_no_image, start_job

    to, plan = _pods(box), wish.plan
    if any(map(is_up, _trainers(to, box, plan.job, gatekeeper))):
        return box.connect()
    known = books.run_called(home.ledger, plan.run)
    if known is not None and known.state == "finished" and to.claim() is not None:
        engine = box.connect()
        with closed_on_failure(engine):
            if engine.observe.look(plan.run)["state"] not in _STARTS:
                return engine
        engine.close()
    gatekeeper.pass_through(judge_cluster(box, plan.job))
    work = Workload(to.place.name, plan.run, plan.job, to.place.namespace)
    refuse_no_image(work)
    judge_tag(work, gatekeeper.report, metered=wish.metered)
    start_job(to, work, wish.secrets, gatekeeper.report)
    return box.connect()


def _trainers(to: PodTransport, box: Box, job: Job, gatekeeper: Gatekeeper) -> list[dict[str, Any]]:
    try:
        return to.trainers()
    except LinkError as error:
        if error.code == "link.auth_failed":  # the audit names every right that is missing, not only the first
            gatekeeper.pass_through(judge_cluster(box, job))
        raise


def give_back(box: Box, engine: Engine, plan: Plan, report: Report) -> None:
    """Delete the Job of a launch that was refused: its pod would hold cards for nothing. Best effort."""
    if not box.name.startswith(K8S):
        return
    with suppress(LeaseholdError):
        if engine.observe.look(plan.run)["state"] != "absent":
            return
        name = _pods(box).place.name
        _pods(box).cluster.delete("job", name)
        report(Note("given_back", f"Job {name} is deleted again: nothing was started in its pod", {"job": name}))


def _pods(box: Box) -> PodTransport:
    from leasehold.platforms.engines.kubernetes.pods import PodTransport

    assert isinstance(box.transport, PodTransport)
    return box.transport
