"""The plan gate: may this job go to this platform at all? Pure: a plan sheet in, a verdict with its fixes out.

It protects data, so it cannot be skipped: the only copy of a result is never left where the intended verb deletes it.
"""

from __future__ import annotations

from leasehold.kit.files.globbing import compile_pattern
from leasehold.model.job.job import Job
from leasehold.model.platform.placing import holds
from leasehold.model.platform.plan_sheet import PlanSheet, Ticking
from leasehold.model.platform.profile import NO, YES, Tier, Verb
from leasehold.model.run.verdict import Finding, Outcome, Verdict, unknown
from leasehold.model.values.money import Money
from leasehold.model.values.wording import ago

from .never_rules import command_warnings, judge_commands
from .refuge_contract import judge_refuge

_IN_A_ROW = "if its cells run one after the other"
_COUNT_CARDS = "how many cards the box has is not known: lease plan --cards N"


def judge_plan(job: Job, sheet: PlanSheet) -> Verdict:
    """Check that the promises outlive the verb that ends the lease and the clocks before it, and what is run there."""
    findings = [_judge_engine(sheet), *judge_commands(job, sheet.profile)]
    if sheet.verb is None:
        findings.append(_no_verb(job, sheet))
        return Verdict("plan", tuple(findings))
    findings.append(_judge_tier(job, sheet, sheet.verb))
    if sheet.wishes.spot:
        findings += _judge_spot(sheet)
    findings += judge_refuge(job, sheet)
    findings += _judge_clocks(sheet)
    findings += _judge_balance(sheet)
    return Verdict("plan", tuple(findings))


def warnings(job: Job, sheet: PlanSheet, now_unix: float) -> list[str]:
    """List facts that do not block the launch but should be known."""
    said = command_warnings(job, sheet.profile)
    said += [line for line in (say_grace(sheet),) if line]
    total, budget = sheet.forecast.total, _budget(job)
    if budget is not None and total is not None:
        share = total.share_of(budget)
        if share is None:
            said.append(f"the budget {budget} and the forecast {total} are not of one currency; nothing is converted")
        elif share > 1:
            said.append(f"the forecast {total} is over the budget {budget}")
    verb = sheet.verb
    cheaper = next((one for one in sheet.profile.verbs if one.kind == "cheaper"), None)
    if job.downloads and cheaper is not None:
        name = f"{cheaper.name} ({cheaper.native})" if cheaper.native else cheaper.name
        said.append(f"{len(job.downloads)} downloads can come first in {name}, without the card: lease run fetch")
    if verb is not None:
        said += [f"not certain: {doubt}" for doubt in sheet.profile.doubts(verb, now_unix)]
        said += [f"after `{verb.name}` this still bills: {item}" for item in verb.still_billed]
    return said


def say_grace(sheet: PlanSheet) -> str:
    """Return a warning if writing a checkpoint takes longer than an eviction allows; empty if not, or not known.

    Where the site decides whether capacity is taken away, eviction cannot be ruled out here.
    """
    spot, cadence = sheet.profile.spot, sheet.cadence
    may_be_taken = sheet.wishes.spot or spot.available not in (YES, NO)
    if not may_be_taken or cadence is None or spot.grace_s is None or cadence.write_s <= spot.grace_s:
        return ""
    return (
        f"a checkpoint takes {ago(cadence.write_s)} to write and an eviction leaves {spot.grace_s:.0f} s: "
        "the last save will not be finished, only those before it count"
    )


def promised(job: Job, path: str) -> bool:
    """Return whether an artifact pattern covers this path, or everything below it."""
    return any(_covers(artifact.pattern, path) for artifact in job.artifacts)


def _covers(pattern: str, path: str) -> bool:
    bare = path.rstrip("/")
    return pattern == bare or bool(compile_pattern(pattern).match(bare)) or pattern in (f"{bare}/**", f"{bare}/*")


def _judge_engine(sheet: PlanSheet) -> Finding:
    engine = sheet.profile.engine
    if sheet.profile.runnable:
        return Finding(Outcome.PASSED, f"runs by the {engine}, detached by {', '.join(sheet.profile.detach)}")
    hint = "plan with it, and run on an SSH box meanwhile; `lease run` says so too"
    return Finding(Outcome.UNKNOWN, f"this version cannot start work through {engine} yet", hint)


def _no_verb(job: Job, sheet: PlanSheet) -> Finding:
    if sheet.wishes.verb:
        known = ", ".join(verb.name for verb in sheet.profile.verbs)
        return _no(f"{sheet.profile.title} has no verb {sheet.wishes.verb!r}", f"known: {known}")
    return _no(
        f"the job says when_done: {job.when_done}, and {sheet.profile.title} has no way to park a box",
        "write when_done: ask",
    )


def _judge_tier(job: Job, sheet: PlanSheet, verb: Verb) -> Finding:
    tier = sheet.state
    if sheet.survives_verb:
        return _yes(f"{_named(sheet)} outlives `{verb.name}`: results and checkpoints stay there")
    fate = f"`{verb.name}` {_fate(tier, verb)} {_named(sheet)}"
    path = job.checkpoint.path
    alone = path and not promised(job, path) and path not in job.scratch
    if not sheet.state_known and not alone:
        where = f"{sheet.root} is on no tier that the profile of {sheet.profile.id} names"
        hint = f"put it on a tier that survives: {_survivors(sheet, verb)}; or name its tier in a profile overlay"
        return unknown(f"{where}: whether `{verb.name}` deletes it is not known", hint)
    if verb.kind == "park":
        return _no(
            f"{fate}: nothing could be resumed from there afterwards",
            f"write when_done: ask, or put our folder on a tier that survives: {_survivors(sheet, verb)}",
        )
    if alone:
        return _no(
            f"{fate}, and the checkpoint {path!r} is neither promised nor given up: its only copy would go with it",
            f"add {path} to artifacts (it comes home first), or to scratch (you accept its loss)",
        )
    return _yes(f"{fate}; what is promised comes home and is verified before that, or the gate stays shut")


def _judge_spot(sheet: PlanSheet) -> list[Finding]:
    spot, tier = sheet.profile.spot, sheet.state
    if spot.available != YES:
        return [_no(f"{sheet.profile.title} has no spot capacity ({spot.available})", "plan without --spot")]
    if tier.survives(spot.effect) == YES:
        return [_yes(f"an eviction ends in {spot.effect}; {tier.name} survives that")]
    answer = "does not survive" if tier.survives(spot.effect) == NO else "is not known to survive"
    return [
        _no(
            f"an eviction ends in {spot.effect}, and {tier.name} {answer} that",
            "put our folder on a tier that does, or rent on demand",
        )
    ]


def _judge_clocks(sheet: PlanSheet) -> list[Finding]:
    ends, soonest = sheet.forecast.ends_s, sheet.soonest_s
    return [
        _judge_clock(sheet, tick, ends, sure=_fires_before(tick, soonest))
        for tick in sheet.clocks
        if _fires_before(tick, ends)
    ]


def _fires_before(tick: Ticking, ends_s: float | None) -> bool:
    on_the_way = tick.clock.starts in ("opened", "run-start")
    return on_the_way and tick.due_s is not None and ends_s is not None and tick.due_s < ends_s


def _judge_clock(sheet: PlanSheet, tick: Ticking, ends_s: float | None, *, sure: bool) -> Finding:
    when = f"{ago(tick.due_s or 0)} after the start, and the results would be home after {ago(ends_s or 0)}"
    what = f"{tick.clock.name}: {tick.clock.effect}, {when}"
    if sheet.state_known and sheet.state.name not in tick.clock.deletes:
        return _yes(f"{what}; {sheet.state.name} outlives it, so the identical command resumes")
    if not sure:
        return unknown(f"{what} {_IN_A_ROW}", _COUNT_CARDS)
    return _no(what, tick.clock.do or "make the run shorter, or checkpoint to a tier that outlives this")


def _judge_balance(sheet: PlanSheet) -> list[Finding]:
    lasts, ends = sheet.balance_lasts_s, sheet.forecast.ends_s
    if lasts is None:
        return []
    said = f"the balance lasts {ago(lasts)}"
    if ends is None or lasts >= ends:
        return [_yes(said + ("" if ends is None else f", the run {ago(ends)}"))]
    tier = sheet.state
    what = f"{said}, and the results would be home after {ago(ends)}"
    if tier.survives_balance_zero == YES:
        return [_yes(f"{what}; {tier.name} survives a balance of zero")]
    answer = "does not survive" if tier.survives_balance_zero != "unknown" else "is not known to survive"
    if sheet.soonest_s is not None and lasts >= sheet.soonest_s:
        return [unknown(f"{what} {_IN_A_ROW}; {tier.name} {answer} a balance of zero", _COUNT_CARDS)]
    return [_no(f"{what}; {tier.name} {answer} a balance of zero", "top up first")]


def _fate(tier: Tier, verb: Verb) -> str:
    return "deletes" if verb.ends == "nothing" or tier.survives(verb.ends) == "no" else "may delete"


def _named(sheet: PlanSheet) -> str:
    """Name the tier of the folder, and the folder itself where the tier's path does not already show it."""
    tier = sheet.state
    seen = not tier.path.startswith("/") or tier.path != "/" and holds(tier.path, sheet.root)
    folder = "" if seen else f", with {sheet.root}"
    return f"{tier.name} ({tier.place}{folder})"


def _survivors(sheet: PlanSheet, verb: Verb) -> str:
    names = [tier.name for tier in sheet.profile.tiers if tier.name in verb.keeps]
    return ", ".join(names) or "there is none here"


def _budget(job: Job) -> Money | None:
    return Money.parse(job.budget) if job.budget else None


def _yes(what: str) -> Finding:
    return Finding(Outcome.PASSED, what)


def _no(what: str, hint: str) -> Finding:
    return Finding(Outcome.REFUSED, what, hint)
