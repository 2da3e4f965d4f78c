"""Turn a job, a profile and stated facts into a plan sheet. Pure: nothing is read or connected to."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

from leasehold.errors import UserError
from leasehold.gates.start.audit import disk_need_bytes, inode_need
from leasehold.kit.files.canonical_json import digest
from leasehold.model.job.cells import MAIN
from leasehold.model.job.job import Job
from leasehold.model.platform.placing import copies_to, copy_tier
from leasehold.model.platform.plan_sheet import Forecast, PlanSheet, Ticking, Wishes, plan_cadence
from leasehold.model.platform.profile import Clock, Profile, Verb
from leasehold.model.values.money import HourlyPrice, Money
from leasehold.model.values.units import parse_duration


def make_sheet(candidate: str, job: Job, profile: Profile, wishes: Wishes) -> PlanSheet:
    """Resolve one job on one platform, whose profile is placed on the wished root; pure and deterministic."""
    verb = _intended(job, profile, wishes)
    cells = max(1, len(job.cells))
    at_once = _at_once(job, profile, wishes)
    forecast = _forecast(job, profile, wishes, math.ceil(cells / at_once))
    best = _forecast(job, profile, wishes, math.ceil(cells / _most_at_once(job, profile, wishes)))
    lasts = _balance_lasts_s(forecast, wishes)
    root = wishes.root or _folder(profile)
    cell = "<cell>" if job.cells else MAIN
    return PlanSheet(
        candidate=candidate,
        profile=profile,
        job_sha256=digest(job.as_dict()),
        verb=verb,
        root=root,
        checkpoint=f"{root}/active/<run>/out/{cell}/{job.checkpoint.path}" if job.checkpoint.path else "",
        durable=copies_to(profile),
        hf_home=_filled(profile.environment.variables.get("HF_HOME", ""), profile, root),
        cells=cells,
        at_once=at_once,
        need_bytes=disk_need_bytes(job, cells),
        need_inodes=inode_need(job, cells).total,
        cadence=plan_cadence(job.checkpoint.write_s, job.checkpoint.step_s, wishes),
        forecast=forecast,
        soonest_s=best.ends_s,
        clocks=tuple(_tick(clock, forecast, verb, lasts) for clock in profile.clocks),
        balance_lasts_s=lasts,
        wishes=wishes,
    )


def _intended(job: Job, profile: Profile, wishes: Wishes) -> Verb | None:
    if wishes.verb:
        return profile.verb(wishes.verb)
    return profile.parking if job.when_done == "park" else profile.verb()


def _folder(profile: Profile) -> str:
    path = profile.state_tier.path
    if path.startswith("/"):
        return path.rstrip("/") + "/leasehold"
    return "~/.leasehold" if path == "~" else profile.state_tier.place


def _filled(text: str, profile: Profile, root: str) -> str:
    durable = copies_to(profile).removesuffix("/leasehold")  # the box fills in the tier's own path
    folders = {"state": root, "durable": durable or root, "scratch": root}
    return text.format(**folders) if text else ""


def _at_once(job: Job, profile: Profile, wishes: Wishes) -> int:
    """Return how many cells run in parallel, by the caretaker's rule: a group of GPUs each, or as the job says."""
    cells = max(1, len(job.cells))
    places = cells if profile.engine == "slurm" else 1  # a cluster takes as many as it has capacity for
    if job.gpu is not None and job.gpu.count and "CUDA_VISIBLE_DEVICES" not in job.env:
        places = max(places, wishes.cards // job.gpu.count)
        return min(cells, places, job.at_once or places)
    return min(cells, job.at_once or places)


def _most_at_once(job: Job, profile: Profile, wishes: Wishes) -> int:
    """Return how many cells could run in parallel on a box whose GPUs were not counted."""
    if wishes.cards or job.gpu is None or not job.gpu.count or "CUDA_VISIBLE_DEVICES" in job.env:
        return _at_once(job, profile, wishes)
    cells = max(1, len(job.cells))
    return min(cells, job.at_once or cells)


def _forecast(job: Job, profile: Profile, wishes: Wishes, rounds: int) -> Forecast:
    """Estimate time and money; a sweep's cells come in rounds, and `expect` is one cell's."""
    cells = max(1, len(job.cells))
    gigabytes = {profile.state_tier.name: Decimal(disk_need_bytes(job, cells)) / 10**9}
    durable = copy_tier(profile)
    if durable is not None and durable.path and not durable.optional:
        gigabytes[durable.name] = Decimal(job.checkpoint.size_bytes * cells) / 10**9
    gigabytes |= wishes.disk_gb  # a disk bills by its size, not by what the job needs of it
    storage = profile.storage_per_hour(gigabytes, stopped=False)
    hour = HourlyPrice.parse(wishes.price).money + storage if wishes.price else None
    run_s = job.expect_s * rounds or None
    size = job.checkpoint.size_bytes * cells
    pull_s = size / wishes.bandwidth_bytes_s if size else None
    free = profile.traits.kind == "workstation"

    def costs(seconds: float | None) -> Money | None:
        if free:
            return Money()
        return None if hour is None or seconds is None else hour.times(Decimal(seconds) / 3600)

    return Forecast(
        boot_s=profile.boot_s,
        run_s=run_s,
        pull_s=pull_s,
        hour=Money() if free else hour,
        boot=costs(profile.boot_s),
        compute=costs(run_s),
        pull=costs(pull_s if pull_s is not None else 0.0),
        parked_day=profile.storage_per_hour(gigabytes, stopped=True).times(24),
    )


def _balance_lasts_s(forecast: Forecast, wishes: Wishes) -> float | None:
    if not wishes.balance or forecast.hour is None:
        return None
    try:
        balance = Money.parse(wishes.balance)
    except ValueError as error:
        raise UserError("plan.bad_balance", str(error), hint="--balance 37.5CNY") from None
    share = forecast.hour.share_of(balance)
    return 3600.0 / share if share else None


def _tick(clock: Clock, forecast: Forecast, verb: Verb | None, lasts_s: float | None) -> Ticking:
    """Count a clock from the plan's start, if that is known."""
    starts, said = {
        "opened": (0.0, "the box is opened"),
        "run-start": (forecast.boot_s, "the run begins"),
        "balance-zero": (lasts_s, "the balance is used up"),
        "stopped": (forecast.ends_s if verb is not None and verb.ends == "stop" else None, "the box is stopped"),
        "released": (forecast.ends_s if verb is not None and verb.ends == "destroy" else None, "the box is released"),
    }.get(clock.starts, (None, clock.starts.replace("-", " ")))
    after = clock.after_s if clock.after_s is not None else 0.0 if clock.starts == "balance-zero" else None
    return Ticking(clock, None if starts is None or after is None else starts + after, said)


_BANDWIDTH = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]?)(bit|bps|B)(?:/s)?\Z", re.IGNORECASE)
_SCALE = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


def read_wishes(*, bandwidth: str = "", gap: str = "", price: str = "", cards: int = 0, **more: Any) -> Wishes:
    """Parse a person's wishes: a price, a balance, 100Mbit/s, a mean time between interruptions, a GPU count."""
    if cards < 0:
        raise UserError("plan.bad_cards", f"a box has no {cards} cards", hint="--cards 4")
    if price:
        HourlyPrice.parse(price)
    rate = Wishes.bandwidth_bytes_s
    if bandwidth:
        found = _BANDWIDTH.match(bandwidth.strip())
        if not found or not float(found[1]):
            raise UserError(
                "plan.bad_bandwidth", f"{bandwidth!r} is not a rate", hint="--bandwidth 100Mbit/s or 12MB/s"
            )
        rate = float(found[1]) * _SCALE[found[2].lower()] / (1 if found[3] == "B" else 8)
    try:
        gap_s = parse_duration(gap) if gap else 0.0
    except ValueError as error:
        raise UserError("plan.bad_gap", str(error), hint="--interrupted-every 3h") from None
    return Wishes(price=price, bandwidth_bytes_s=rate, gap_s=gap_s, cards=cards, **more)
