"""Write docs/platforms.md from the profiles."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from written import written

from leasehold.facts import profiles
from leasehold.model.platform.platform_signs import say_sign
from leasehold.model.platform.platform_wording import first_lines, say_clock, say_survival
from leasehold.model.platform.profile import Profile, Rate, Source, Tier, Verb

_PRESENCE = {"always": " on every box", "sometimes": "", "never": " on none of its boxes"}
_HEAD = """# Platforms

Generated from `src/leasehold/facts/profiles/` by `make docs`. Each platform begins with the verb that stops its
charges, what that verb deletes, and the next deadline. *unknown* counts as deleted. Before a verb that deletes rests
on a fact that is older than six months, or has the confidence *conflict* or *unverified*, you must confirm the fact;
`lease platforms check` lists those facts. To correct a fact or to add a platform, write a file:
[platforms-own.md](platforms-own.md).
"""


def page() -> str:
    """Format the page."""
    loaded = [profiles.load(name) for name in profiles.names()]
    lines = [_HEAD, *_overview(loaded)]
    for profile in loaded:
        lines += _section(profile)
    return "\n".join(lines).rstrip("\n") + "\n"


def _overview(loaded: list[Profile]) -> list[str]:
    rows = []
    for profile in loaded:
        verb = profile.verb()
        assert verb is not None
        undo = "yes" if verb.reversible else "no"
        durable = profile.durable_tier.name if profile.durable_tier else "none"
        name = f"[{profile.id}](#{_anchor(profile)})"
        rows.append([name, _named(verb), verb.stops_all, undo, ", ".join(verb.deletes) or "nothing", durable])
    head = ["platform", "what stops the meter", "ends all billing", "undo", "deletes", "outlives the box"]
    return [*_table(head, rows), ""]


def _section(profile: Profile) -> list[str]:
    lines = [f"## {_heading(profile)}", ""]
    lines += [f"- {line}" for line in first_lines(profile)]
    lines += ["", _in_short(profile), ""]
    lines += _table(["tier", "where", "roles", "stop", "destroy", "balance zero"], map(say_survival, profile.tiers))
    lines += ["", *(f"- {tier.name}: {text}" for tier in profile.tiers if (text := _tier(tier)))]
    lines += ["", *_table(["verb", "ends compute", "ends all", "undo", "deletes", "by"], map(_verb, profile.verbs)), ""]
    for verb in profile.verbs:
        lines += _steps(verb)
    lines += ["Clocks:", "", *(f"- {say_clock(clock)}" for clock in profile.clocks)] if profile.clocks else []
    lines += ["", f"Spot: {_spot(profile)}", "", f"Environment: {profile.environment.contract}.", ""]
    lines += [f"- `{name}={value}`" for name, value in profile.environment.variables.items()]
    for rule in profile.environment.rules:
        done = {"refuse": "refused", "warn": "warned of"}[rule.outcome]
        lines.append(f"- never: {rule.name} ({done} in a job's commands): {rule.why}")
    lines += [f"- never: {text}" for text in profile.environment.never]
    lines += [f"- {profile.environment.note}"] if profile.environment.note else []
    lines += ["", "Network and more:", "", *(f"- {name}: {text}" for name, text in profile.network.items())]
    lines += [f"- {text}" for text in (*profile.conveniences, *profile.notes)]
    if profile.signs:
        lines += ["", "Its boxes are recognised by:", ""]
    lines += [f"- {sign.name}: {say_sign(sign)}{_PRESENCE[sign.presence]}" for sign in profile.signs]
    lines += ["", *_table(["fact", "read at", "month", "confidence"], _sources(profile)), ""]
    return lines


def _heading(profile: Profile) -> str:
    return f"{profile.id}: {profile.title}"


def _anchor(profile: Profile) -> str:
    """Format a heading as GitHub's anchors do."""
    kept = (char for char in _heading(profile).lower() if char.isalnum() or char in " -_")
    return "".join(kept).replace(" ", "-")


def _in_short(profile: Profile) -> str:
    parts = [f"Runs by {profile.engine}; detached by {', '.join(profile.detach)}."]
    parts += [f"Billing: {profile.billing}."] if profile.billing else []
    parts += [f"Usable about {profile.boot} after the start."] if profile.boot else []
    parts += [f"Known problems: {', '.join(profile.gotchas)}."] if profile.gotchas else []
    return " ".join(parts)


def _tier(tier: Tier) -> str:
    inodes = f"inodes: {tier.inode_cap}" if tier.inode_cap else ""
    optional = "not every box has it" if tier.optional else ""
    rates = [_rate(rate) for rate in tier.rates]
    return "; ".join(part for part in (tier.speed, tier.size, inodes, tier.scope, optional, tier.note, *rates) if part)


def _rate(rate: Rate) -> str:
    free = f" above {rate.above_gb} GB" if rate.above_gb else ""
    note = f" ({rate.note})" if rate.note else ""
    return f"{rate.amount} {rate.currency}/{rate.per}{free}, {rate.when}{note}"


def _verb(verb: Verb) -> list[str]:
    undo = "yes" if verb.reversible else "no"
    return [_named(verb), verb.stops_compute, verb.stops_all, undo, ", ".join(verb.deletes) or "nothing", verb.by]


def _named(verb: Verb) -> str:
    return f"{verb.name} ({verb.native})" if verb.native else verb.name


def _steps(verb: Verb) -> list[str]:
    steps = [step.format(box="BOX", lease="LEASE", root="ROOT") for step in verb.steps]
    lines = [f"`{verb.name}`:", "", *(f"{number}. {step}" for number, step in enumerate(steps, 1)), ""]
    lines += [f"Still billed: {', '.join(verb.still_billed)}.", ""] if verb.still_billed else []
    return [*lines, *([f"Note: {verb.note}.", ""] if verb.note else [])]


def _spot(profile: Profile) -> str:
    spot = profile.spot
    grace = f"{spot.grace_s:g} s grace" if spot.grace_s is not None else ""
    signal = f"signal: {spot.signal}" if spot.signal else ""
    return "; ".join(part for part in (spot.available, spot.model, signal, grace, spot.resume) if part)


def _sources(profile: Profile) -> list[list[str]]:
    """List each source once, with all that rests on it."""
    resting: dict[Source, list[str]] = {}
    for what, source in profile.sources():
        facts = resting.setdefault(source, [])
        facts += [what] if what not in facts else []
    rows = []
    for source, facts in resting.items():
        doubt = f": {source.note}" if source.note else ""
        rows.append(["; ".join(facts), source.url, source.verified, source.confidence + doubt])
    return rows


def _table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    spelt = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, *rows)]
    return [spelt[0], "|" + "---|" * len(head), *spelt[1:]]


if __name__ == "__main__":
    sys.exit(written("docs/platforms.md", page()))
