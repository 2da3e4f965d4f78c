"""From a job file and a profile to a plan: the run's identity is a hash of what it will do."""

from __future__ import annotations

from pathlib import Path

from leasehold.errors import UserError
from leasehold.kit.canon import digest
from leasehold.model.job import Job, parse_job
from leasehold.model.plan import Plan
from leasehold.model.profile import Profile

DEFAULT_FILE = "lease.yaml"


def read_job(path: Path) -> Job:
    """Read and check a job file."""
    import yaml

    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise UserError(
            "job.missing",
            f"there is no job file {path}",
            hint="write one (docs/job-file.md), or name it: lease run FILE",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError("job.unreadable", f"{path}: {error}", hint="job files are UTF-8 text") from None
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date such as 2024-99-99
        raise UserError("job.invalid", f"{path} is not valid YAML", seen=" ".join(str(error).split())) from None
    return parse_job(value, str(path))


def resolve(job: Job, tree: str, profile: Profile, again: int = 0) -> Plan:
    """Combine job, code and platform; equal inputs give the same run on every home."""
    identity = digest({"job": job.identity(), "tree": tree})
    run = f"{job.name[:60]}-{identity[:10]}" + (f"-{again}" if again else "")
    return Plan(run=run, job=job, tree=tree, platform=profile.id, detach=profile.detach)
