"""Fetch only a job's downloads: on a box without its GPU, at a fraction of the price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from leasehold.errors import RunFailed, UserError
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.launch.launch import LaunchOrder, launch, prove_detached
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.project.code_tree import RESULTS
from leasehold.lifecycle.project.job_yaml import read_job
from leasehold.lifecycle.project.run_inputs import gather
from leasehold.lifecycle.records.orders import RunOrder, RunOutcome
from leasehold.lifecycle.watch.watch import Watch
from leasehold.model.job.job import CheckpointFacts, Job
from leasehold.model.run.note import Report


def fetch_only(home: Home, order: RunOrder, box: Box, report: Report) -> RunOutcome:
    """Have the box fetch what the job names, detached and resumable; a later run finds it there."""
    job = read_job(order.job_file)
    if not job.downloads:
        raise UserError("fetch.nothing", f"{order.job_file} names no downloads", hint="docs/job-file.md: downloads")
    project = order.job_file.absolute().parent
    job, tree = gather(home, only_downloads(job), order.job_file, project / RESULTS, report)
    wanted = LaunchOrder(box, project / RESULTS, order.price or box.price, trains=False)
    launched, engine = launch(home, wanted, (job, tree), report)
    engine.close()
    run = launched.plan.run
    seen: Mapping[str, Any] = launched.seen
    if not seen["terminal"]:
        engine = prove_detached(home, launched, report)
        if order.detach:
            engine.close()
            return RunOutcome(run, launched.lease.id, str(seen["state"]))
        state = Watch(run, launched.lease.id, box).until_end(home.ledger, engine, report)
        seen = {"state": state.state, "reason": state.reason}
    if seen["state"] != "finished":
        raise RunFailed(
            f"run.{seen['state']}", f"{run} {seen['state']}: {seen['reason']}", hint="the same command resumes"
        )
    return RunOutcome(run, launched.lease.id, "finished")


def only_downloads(job: Job) -> Job:
    """Return a job with the same downloads that promises and trains nothing."""
    return replace(
        job, name=f"{job.name[:50]}-fetch", run="true", setup="", data=(), smoke="", artifacts=(), gpu=None, scratch=(),
        checkpoint=CheckpointFacts(), expect_s=0.0, when_done="ask",
    )  # fmt: skip
