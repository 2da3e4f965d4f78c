"""From a job file and a profile to a plan: the run's identity is a hash of what it will do."""

from __future__ import annotations

from pathlib import Path

from leasehold.errors import UserError
from leasehold.kit.canon import digest
from leasehold.model.job import Job
from leasehold.model.plan import Plan
from leasehold.model.profile import Profile

from .yaml_text import parse_text

DEFAULT_FILE = "lease.yaml"


def read_job(path: Path) -> Job:
    """Read and check a job file."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise UserError(
            "job.missing", f"there is no job file {path}", hint="lease init writes one for your project"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError("job.unreadable", f"{path}: {error}", hint="job files are UTF-8 text") from None
    return parse_text(text, str(path))


def resolve(job: Job, tree: str, profile: Profile, again: int = 0) -> Plan:
    """Combine job, code and platform; equal inputs give the same run on every home."""
    identity = digest({"job": job.identity(), "tree": tree})
    run = f"{job.name[:60]}-{identity[:10]}" + (f"-{again}" if again else "")
    return Plan(run=run, job=job, tree=tree, platform=profile.id, detach=profile.detach)
