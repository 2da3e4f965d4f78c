"""The smoke: the job's cheap rehearsal on this machine's CPU, in a clean copy, before money is spent."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from leasehold.gates.start.launching import SmokeReadings, judge_smoke
from leasehold.kit.files.globbing import matching
from leasehold.kit.text.safe_text import one_line
from leasehold.lifecycle.confine.check_loads import check_loads, load_request
from leasehold.lifecycle.home.result_names import twins
from leasehold.lifecycle.project.code_tree import CodeTree
from leasehold.model.job.cells import spell
from leasehold.model.job.job import Job
from leasehold.model.run.note import Note, Report
from leasehold.model.run.verdict import Verdict
from leasehold.transport import here

from .kill_check import check_continuing
from .save_delays import what_delays
from .smoke_trial import Folders, Trial, lay_out, run_once

_SHOWN_LINES = 15  # of a failed smoke: its own output gives the reason


def smoke(job: Job, tree: CodeTree, report: Report, *, kill_check: bool = False) -> Verdict:
    """Run the smoke and judge it."""
    here.refuse_no_sh("the smoke")
    first = job.cells[0] if job.cells else None
    given = ", ".join(f"{key}={spell(value)}" for key, value in first.params.items()) if first else ""
    whose = f"  (cell {first.name}: {given})" if first and given else ""
    report(Note("smoke_started", f"smoke: {job.smoke}{whose}"))
    with ended_if_interrupted(report), tempfile.TemporaryDirectory(prefix="leasehold-smoke-") as place:
        folders = lay_out(tree, Path(place, "first"))
        trial = run_once(job, folders, {}, report=report)
        readings = _read(job, trial, folders)
        if kill_check and readings.code == 0:
            seen = check_continuing(job, tree, Path(place, "second"), trial, report)
            readings = replace(readings, continuation=seen)
    if readings.missing:
        readings = replace(readings, delayed=what_delays(tree.folder, job.smoke))
    verdict = judge_smoke(readings)
    if not verdict.passed and trial.left_out and readings.output.strip():
        report(Note("log", "\n".join(readings.output.rstrip().split("\n")[-_SHOWN_LINES:])))
    return verdict


@contextlib.contextmanager
def ended_if_interrupted(report: Report) -> Iterator[None]:
    """Report after Ctrl-C that the smoke was ended."""
    try:
        yield
    except KeyboardInterrupt:
        report(Note("smoke_ended", "the smoke was interrupted, and all its processes were ended"))
        raise


def _read(job: Job, trial: Trial, folders: Folders) -> SmokeReadings:
    loss = trial.reader.now.loss
    ran = trial.interpreter
    readings = SmokeReadings(job.smoke, trial.code, trial.output, loss, timed_out=trial.timed_out, interpreter=ran)
    return _with_artifacts(readings, job, folders.out) if trial.code == 0 else readings


def _with_artifacts(readings: SmokeReadings, job: Job, out: Path) -> SmokeReadings:
    """Verify the smoke's own artifacts as the real ones will be."""
    hits = matching(str(out), [artifact.pattern for artifact in job.artifacts])
    missing = tuple(artifact.pattern for artifact, found in zip(job.artifacts, hits, strict=True) if not found)
    requests = [
        load_request(str(out / found.path), artifact)
        for artifact, hit in zip(job.artifacts, hits, strict=True)
        for found in hit
    ]
    found = twins({file.path for hit in hits for file in hit})
    alike = tuple((one_line(twin.path), one_line(twin.other), one_line(twin.name)) for twin in found)
    results = check_loads(requests)
    bad = tuple(f"{os.path.relpath(r.path, out)} does not load: {one_line(r.reason)}" for r in results if not r.ok)
    loaded = sum(1 for result in results if result.ok)
    return replace(readings, missing=missing, unloadable=bad, loaded=loaded, twins=alike)
