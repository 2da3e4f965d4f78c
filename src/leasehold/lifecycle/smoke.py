"""The smoke: the job's cheap rehearsal on this machine's CPU, in a clean copy, before anything is paid for."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from leasehold.errors import Refusal
from leasehold.kit.canon import digest
from leasehold.kit.terminal import plain
from leasehold.ledger.store import Ledger
from leasehold.model.job import Job
from leasehold.model.note import Note, Report

from .project import CodeTree

_TIMEOUT_S = 600
_QUIET = {"CUDA_VISIBLE_DEVICES": "", "WANDB_MODE": "disabled", "PYTHONUNBUFFERED": "1", "LEASE_SMOKE": "1"}


def smoke(ledger: Ledger, job: Job, tree: CodeTree, report: Report) -> None:
    """Run the smoke unless this very code and job passed it before; refuse the launch when it fails."""
    if not job.smoke:
        return
    key = digest({"smoke": job.smoke, "env": dict(job.env), "tree": tree.sha256})
    if any(event.data["key"] == key for event in ledger.events(kind="smoke_passed")):
        report(Note("smoke_cached", "smoke: passed before for this very code"))
        return
    report(Note("smoke_started", f"smoke: {job.smoke}"))
    code, said = _run(job, tree)
    if code != 0 or "Traceback (most recent call last)" in said:
        lines = plain(said).strip().splitlines()[-15:]
        raise Refusal(
            "smoke.failed",
            f"the smoke `{job.smoke}` failed here (exit {code}); nothing was launched",
            seen="\n".join(lines),
            hint="mend it here, where it costs nothing",
        )
    ledger.append("smoke_passed", key=key)
    report(Note("smoke_passed", "smoke: passed"))


def _run(job: Job, tree: CodeTree) -> tuple[int, str]:
    with tempfile.TemporaryDirectory(prefix="leasehold-smoke-") as place:
        work, out = Path(place, "work"), Path(place, "out")
        out.mkdir()
        _copy(tree, work)
        env = {**os.environ, **job.env, **_QUIET, "LEASE_OUT": str(out)}
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", job.smoke], cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            said = late.stdout.decode("utf-8", "replace") if late.stdout else ""
            return 124, said + f"\nstill running after {_TIMEOUT_S} s"
    return done.returncode, done.stdout.decode("utf-8", "replace")


def _copy(tree: CodeTree, work: Path) -> None:
    work.mkdir()
    for entry in tree.entries:
        target = work / entry["path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        if "link" in entry:
            target.symlink_to(entry["link"])
            continue
        target.write_bytes((tree.folder / entry["path"]).read_bytes())
        if entry.get("exec"):
            target.chmod(0o755)
