"""Would work outlive its box? A long run, or capacity that is taken away, needs checkpoints that leave it. Pure."""

from __future__ import annotations

from decimal import Decimal

from leasehold.kit.run.cadence import QUIET_GAP_S, SPOT_GAP_S, interval_s
from leasehold.model.job.job import Job
from leasehold.model.job.parse_refuge import DURABLE, HOME, NONE
from leasehold.model.platform.placing import copy_tier
from leasehold.model.platform.plan_sheet import PlanSheet
from leasehold.model.platform.profile import YES
from leasehold.model.run.verdict import Finding, Outcome
from leasehold.model.values.wording import ago

ASSUMED_WRITE_S = 30.0  # of a checkpoint, where the job does not say
_HOW = "checkpoint: {path: …, refuge: s3://bucket/prefix} (docs/refuge.md), or say why not: checkpoint: {because: '…'}"
_HOME_ASLEEP = "home is no refuge while its machine sleeps"


def judge_refuge(job: Job, sheet: PlanSheet) -> list[Finding]:
    """Return nothing for short runs; else what leaves the box, or what would be lost with it."""
    why = _needs_one(job, sheet)
    if not why:
        return []
    where, doubt = refuge_of(job, sheet)
    if where:
        return [Finding(Outcome.PASSED, f"{why}: checkpoints outlive the box in {where}{doubt}")]
    if job.checkpoint.because:
        return [Finding(Outcome.PASSED, f"{why}, without checkpoints off the box, because: {job.checkpoint.because}")]
    what = f"{why}, and {_lacks(job, sheet)}: if the box goes, {_loss(job, sheet)}"
    if sheet.profile.traits.kind == "workstation":
        return []  # no verb of anybody deletes it, and nothing bills
    return [Finding(Outcome.REFUSED, what, _HOW)]


def cadence_s(job: Job, sheet: PlanSheet) -> float:
    """Return the interval at which checkpoints would pay; a job that does not say how long one takes gets a guess."""
    if sheet.cadence is not None:
        return sheet.cadence.every_s
    gap_s = sheet.wishes.gap_s or (SPOT_GAP_S if sheet.wishes.spot else QUIET_GAP_S)
    return interval_s(job.checkpoint.write_s or ASSUMED_WRITE_S, gap_s)


def refuge_of(job: Job, sheet: PlanSheet) -> tuple[str, str]:
    """Return where checkpoints outlive the intended verb and an eviction, and a doubt about it; empty for nowhere."""
    if not job.checkpoint.path:
        return "", ""
    named = [one for one in job.checkpoint.refuge or (DURABLE,) if one != NONE]
    for one in named:
        if one == DURABLE:
            if tier := _durable(sheet):
                return tier, ""
        elif one != HOME:
            return one, ""
    if _survives(sheet, sheet.state.name):
        return f"{sheet.state.name} ({sheet.state.place})", ""
    return ("home", f"; {_HOME_ASLEEP}") if HOME in named else ("", "")


def _needs_one(job: Job, sheet: PlanSheet) -> str:
    if not job.artifacts:
        return ""  # it only downloads
    if sheet.wishes.spot:
        return "this capacity can be taken away"
    each, cadence = job.expect_s, cadence_s(job, sheet)
    if each > cadence:
        return f"it runs for {ago(each)}, longer than the {ago(cadence)} between checkpoints that pay"
    return ""


def _durable(sheet: PlanSheet) -> str:
    tier = copy_tier(sheet.profile)
    if tier is None or not sheet.durable or tier.optional or not _survives(sheet, tier.name):
        return ""
    return f"{tier.name} ({tier.place})"


def _survives(sheet: PlanSheet, name: str) -> bool:
    tier = sheet.profile.tier(name)
    kept = sheet.verb is not None and name in sheet.verb.keeps
    return kept and (not sheet.wishes.spot or (tier is not None and tier.survives(sheet.profile.spot.effect) == YES))


def _lacks(job: Job, sheet: PlanSheet) -> str:
    if not job.checkpoint.path:
        named = f"; `resume:` names {job.latest[0]}, is that its checkpoint?" if job.latest else ""
        return f"the job names no checkpoint (checkpoint.path){named}"
    if job.checkpoint.refuge == (NONE,):
        return "its checkpoints leave the box nowhere (refuge: none)"
    return f"its checkpoints lie on {sheet.state.name} alone, which goes with the box"


def _loss(job: Job, sheet: PlanSheet) -> str:
    if not job.expect_s:
        return "all that it has trained by then is lost"
    hour = sheet.forecast.hour
    money = f" / {hour.times(Decimal(job.expect_s) / 3600)}" if hour is not None and hour else ""
    return f"up to {ago(job.expect_s)}{money} of work is lost"
