"""Turn a job file and a profile into a plan: the run's identity is a hash of what it will do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leasehold.errors import UserError
from leasehold.kit.files.canonical_json import digest
from leasehold.kit.run.cadence import SPOT_GAP_S
from leasehold.model.job.cells import MAIN
from leasehold.model.job.job import Job
from leasehold.model.platform.placing import copy_tier
from leasehold.model.platform.profile import Profile
from leasehold.model.run.plan import Plan

_MARK = re.compile(r"(?<![\w-])FILL_IN(?!\w)")  # the placeholder of `lease init`


def refuse_unfilled(job: Job, path: Path) -> None:
    """Refuse a placeholder that the draft left: nothing is started with it."""
    said = {"run": job.run, "smoke": job.smoke, "setup": job.setup, "evaluate": job.evaluate}
    marked = [key for key, text in said.items() if text and _MARK.search(text)]
    if not marked:
        return
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    at = [str(number) for number, line in enumerate(lines, 1) if _MARK.search(line.partition(" #")[0])]
    where = f"line{'s' * (len(at) != 1)} {', '.join(at)} of {path.name}" if at else path.name
    raise UserError(
        "job.unfilled",
        f"FILL_IN is still in {' and '.join(marked)}",
        seen=where,
        hint="`lease init` could not know this value: write it there, or remove FILL_IN where no value is needed",
    )


@dataclass(frozen=True)
class Share:
    """One box's share of a sweep over several boxes: some cells, and the mark of its own run."""

    cells: tuple[str, ...] = ()
    part: str = ""
    generation: int = -1  # computed by the home that shared it out; -1: not computed
    given: Mapping[str, int] = field(default_factory=dict)  # the number of a cell's giving: a higher one wins


ALL = Share()


def resolve(job: Job, tree: str, profile: Profile, again: int = 0, share: Share = ALL, identity: str = "") -> Plan:
    """Combine job, code and platform; equal inputs give the same run on every home.

    The identity is the hash of those files of the tree that count; without one, every file does.
    """
    code = identity or tree
    run = run_id(job, code) + (f"-{again}" if again else "") + (f"-{share.part}" if share.part else "")
    environment = environment_of(profile)
    cells = share.cells or tuple(cell.name for cell in job.cells) or (MAIN,)
    cells = cells if job.artifacts else ()  # a job that promises nothing only fetches
    apart = code if code != tree else ""
    return Plan(run, job, tree, profile.id, profile.detach, cells, environment, profile.engine, code=apart)


def run_id(job: Job, tree: str) -> str:
    """Return the name of the first run of this job and code: a hash of what is executed, the same on every platform."""
    identity = digest({"job": job.identity(), "tree": tree})
    return f"{job.name[:60]}-{identity[:10]}"


def environment_of(profile: Profile) -> dict[str, Any]:
    """Return the environment for the box's shells; {state}, {durable} and {scratch} are filled in there."""
    wanted, durable, copied = profile.environment, profile.durable_tier, copy_tier(profile)
    folders = {role: tier.path for tier in profile.tiers for role in tier.roles if tier.path.startswith("/")}
    private = profile.tier(wanted.credentials) if wanted.credentials else None
    value = {
        "interpreter": wanted.interpreter,
        "hook": wanted.hook,
        "variables": dict(wanted.variables),
        "no_proxy": list(wanted.no_proxy),
        "tensorboard_dir": wanted.tensorboard_dir,
        "credentials": private.path if private is not None else "",
        "durable": copied.path if copied is not None and copied.path.startswith("/") else "",
        "durable_is_folder": bool(durable and not durable.own_mount and not durable.stated),
        "durable_apart": bool(copied and copied.stated),
        "scratch": folders.get("scratch", ""),
        "grace_s": (profile.spot.grace_s or 0.0) if profile.spot.available != "no" else 0.0,
        "clocks": [
            [clock.name, clock.after_s] for clock in profile.clocks if clock.starts == "run-start" and clock.after_s
        ],
        "gap_s": SPOT_GAP_S if profile.spot.available != "no" else 0.0,  # a day, on platforms that reclaim no boxes
    }
    return {key: item for key, item in value.items() if item}
