"""Write docs/platforms.md from the profiles."""

from __future__ import annotations

import sys

from written import written

from leasehold.facts import profiles
from leasehold.model.profile import Profile


def page() -> str:
    """Spell the page."""
    lines = ["# Platforms", "", "Generated from `src/leasehold/facts/profiles/` by `make docs`.", ""]
    for name in profiles.names():
        lines += _section(profiles.load(name))
    return "\n".join(lines) + "\n"


def _section(profile: Profile) -> list[str]:
    lines = [f"## {profile.id}: {profile.title}", ""]
    lines += [f"Detached by: {', '.join(profile.detach)} (the first that works, proven over a second connection).", ""]
    lines += ["| tier | where | roles | survives stop | destroy | balance zero |", "|---|---|---|---|---|---|"]
    for tier in profile.tiers:
        survives = f"{tier.survives_stop} | {tier.survives_destroy} | {tier.survives_balance_zero}"
        lines.append(f"| {tier.name} | {tier.path} | {', '.join(tier.roles)} | {survives} |")
    lines += [
        "",
        "| verb | ends compute | ends all billing | undo | deletes | fact from |",
        "|---|---|---|---|---|---|",
    ]
    for verb in profile.verbs:
        source = f"{verb.source.url} ({verb.source.verified}, {verb.source.confidence})"
        undo = "yes" if verb.reversible else "no"
        deletes = ", ".join(verb.deletes) or "nothing"
        lines.append(f"| {verb.name} | {verb.stops_compute} | {verb.stops_all} | {undo} | {deletes} | {source} |")
    lines += ["", *(f"- clock: {clock}" for clock in profile.clocks), ""]
    return lines


if __name__ == "__main__":
    sys.exit(written("docs/platforms.md", page()))
