"""The smoke: the job's cheap rehearsal on this machine's CPU, in a clean copy, before anything is paid for."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from leasehold.gates.launching import SmokeReadings, judge_smoke
from leasehold.kit.canon import digest
from leasehold.kit.match import matching
from leasehold.kit.progress import ProgressReader
from leasehold.kit.python_names import with_python
from leasehold.kit.terminal import one_line, plain
from leasehold.ledger.store import Ledger
from leasehold.model.job import Job
from leasehold.model.note import Note, Report
from leasehold.model.verdict import Verdict
from leasehold.transport import here, parcel

from .confine import LoadRequest, check_loads
from .project import CodeTree

_TIMEOUT_S = 600.0
_PARCEL = "leasehold.zip"
_KEPT_OUTPUT = 200_000
_SHOWN_LINES = 15  # of a smoke that went badly: its own words say why
_QUIET = {"CUDA_VISIBLE_DEVICES": "", "WANDB_MODE": "disabled", "PYTHONUNBUFFERED": "1", "LEASE_SMOKE": "1"}


def smoke(job: Job, tree: CodeTree, report: Report, *, kill_check: bool = False) -> Verdict:
    """Run the smoke and judge it."""
    here.refuse_no_sh("the smoke")
    report(Note("smoke_started", f"smoke: {job.smoke}"))
    with tempfile.TemporaryDirectory(prefix="leasehold-smoke-") as place:
        begun = time.monotonic()
        readings = _run(job, tree, Path(place, "first"))
        took_s = time.monotonic() - begun
        if kill_check and readings.code == 0:
            readings = replace(readings, continued=_continues(job, tree, Path(place, "second"), took_s))
    verdict = judge_smoke(readings)
    if not verdict.passed and readings.output.strip():
        report(Note("log", "\n".join(readings.output.rstrip().split("\n")[-_SHOWN_LINES:])))
    return verdict


def passed_before(ledger: Ledger, job: Job, tree: CodeTree) -> bool:
    """Whether this very code and job passed its smoke on this home."""
    key = smoke_key(job, tree)
    return any(event.data["key"] == key for event in ledger.events(kind="smoke_passed"))


def smoke_key(job: Job, tree: CodeTree) -> str:
    """Name what a smoke depends on."""
    promises = [[artifact.pattern, artifact.loads, list(artifact.keys)] for artifact in job.artifacts]
    return digest({"smoke": job.smoke, "env": dict(job.env), "tree": tree.sha256, "artifacts": promises})


def _run(job: Job, tree: CodeTree, place: Path) -> SmokeReadings:
    work, out = _lay_out(tree, place)
    child = _start(job, work, out)
    try:
        said, _ = child.communicate(timeout=_TIMEOUT_S)
        timed_out = False
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        said, _ = child.communicate()
        timed_out = True
    output = plain(said[-_KEPT_OUTPUT:].decode("utf-8", "replace"))
    reader = ProgressReader(job.progress)
    reader.feed(output)
    readings = SmokeReadings(job.smoke, child.returncode, output, reader.now.loss, timed_out=timed_out)
    return _with_artifacts(readings, job, out) if child.returncode == 0 else readings


def _with_artifacts(readings: SmokeReadings, job: Job, out: Path) -> SmokeReadings:
    """Put the smoke's own artifacts through the verify that the real ones will meet."""
    hits = matching(str(out), [artifact.pattern for artifact in job.artifacts])
    missing = tuple(artifact.pattern for artifact, found in zip(job.artifacts, hits, strict=True) if not found)
    requests = [
        LoadRequest(str(out / found.path), artifact.loads, artifact.allow_opaque, artifact.keys)
        for artifact, hit in zip(job.artifacts, hits, strict=True)
        for found in hit
    ]
    results = check_loads(requests)
    bad = tuple(f"{os.path.relpath(r.path, out)} does not load: {one_line(r.reason)}" for r in results if not r.ok)
    return replace(readings, missing=missing, unloadable=bad, loaded=sum(1 for result in results if result.ok))


def _continues(job: Job, tree: CodeTree, place: Path, took_s: float) -> bool:
    """Kill a second smoke halfway and start it again in the same folders."""
    work, out = _lay_out(tree, place)
    first = _start(job, work, out)
    try:
        first.communicate(timeout=max(0.05, took_s / 2))
    except subprocess.TimeoutExpired:
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
    again = _start(job, work, out)
    try:
        again.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(again.pid, signal.SIGKILL)
        again.communicate()
    return again.returncode == 0


def _start(job: Job, work: Path, out: Path) -> subprocess.Popen[bytes]:
    named = {"LEASE_OUT": str(out), "LEASE_RUN": f"{job.name}-smoke", "LEASE_CELL": "main", "LEASE_ATTEMPT": "1"}
    env = {**os.environ, **job.env, **_QUIET, **named}
    env.setdefault("LEASE_DATA", str(work.parent / "data"))  # your own, if you set it; on the box, what was fetched
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), str(work.parent / _PARCEL)]))
    env = with_python(env, str(work.parent))  # as on a box: Debian has no `python`
    return subprocess.Popen(
        ["/bin/sh", "-c", job.smoke], cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


def _lay_out(tree: CodeTree, place: Path) -> tuple[Path, Path]:
    work, out = place / "work", place / "out"
    out.mkdir(parents=True)
    work.mkdir()
    (place / _PARCEL).write_bytes(parcel.build().data)  # leasehold.checkpoint, as on a box
    for entry in tree.entries:
        target = work / entry["path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        if "link" in entry:
            target.symlink_to(entry["link"])
            continue
        target.write_bytes((tree.folder / entry["path"]).read_bytes())
        if entry.get("exec"):
            target.chmod(0o755)
    return work, out
