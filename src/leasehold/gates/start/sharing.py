"""Check whether a shared disk is really shared: whether a second box saw the first one's note. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from leasehold.model.platform.profile import YES, Profile, Tier
from leasehold.model.run.verdict import Finding, Outcome


class Sight(Enum):
    """The outcome of looking for the note."""

    SAME = "same bytes"
    ABSENT = "absent"
    DIFFERS = "other bytes"
    UNWRITTEN = "could not be written"
    UNREACHABLE = "nobody to ask"
    SAME_MACHINE = "one machine under two names"


@dataclass(frozen=True)
class SharedReading:
    """One tier, as seen from a second box."""

    path: str
    here: str  # the box that left the note
    there: str  # the box that looked for it
    sight: Sight
    detail: str = ""
    mounted_there: bool = True


def judge_sharing(
    profile: Profile, shared: tuple[SharedReading, ...], disks: tuple[dict[str, Any], ...]
) -> list[Finding]:
    """Judge the reading; without one, warn only where the shared disk is the one way back after losing the box."""
    if shared:
        return [_judge(reading, _tier(profile, reading.path)) for reading in shared]
    tier = relied_on(profile)
    attached = {str(disk["path"]) for disk in disks if disk.get("exists")}
    if tier is None or tier.path not in attached:
        return []
    what = f"{tier.path} ({tier.name}): not proven that a second box sees it, and after {_verb(profile)} only one can"
    return [Finding(Outcome.UNKNOWN, what, "name a second box of the same region: lease check audit --with BOX")]


def relied_on(profile: Profile) -> Tier | None:
    """Return the shared tier on which a plan relies because the verb that ends the meter deletes the rest."""
    verb, tier = profile.verb(), profile.durable_tier
    if verb is None or tier is None or not tier.shared or profile.state_tier.survives(verb.ends) == YES:
        return None
    return tier


def _judge(reading: SharedReading, tier: Tier | None) -> Finding:
    named = f"{reading.path} ({tier.name})" if tier else reading.path
    detail = f": {reading.detail}" if reading.detail else ""
    match reading.sight:
        case Sight.SAME:
            seen = f"a note left by {reading.here} was read on {reading.there}, the same bytes"
            return Finding(Outcome.PASSED, f"{named} is shared: {seen}")
        case Sight.ABSENT | Sight.DIFFERS:
            sees = "does not see" if reading.sight is Sight.ABSENT else "sees other bytes of"
            return Finding(
                Outcome.REFUSED,
                f"{named} is not shared: {reading.there} {sees} a note that {reading.here} left{detail}",
                _not_shared_hint(reading, tier),
            )
        case Sight.UNWRITTEN:
            return Finding(
                Outcome.REFUSED, f"{named}: {reading.here} could not leave a note{detail}", "is the volume attached?"
            )
        case Sight.UNREACHABLE:
            what = f"{named}: whether it is shared is unknown, {reading.there} could not be asked{detail}"
            return Finding(Outcome.UNKNOWN, what, f"lease box test {reading.there}")
        case Sight.SAME_MACHINE:
            what = f"{named}: nothing is proven, {reading.here} and {reading.there} are one machine"
            return Finding(Outcome.UNKNOWN, what, "name another box with --with")


def _not_shared_hint(reading: SharedReading, tier: Tier | None) -> str:
    if not reading.mounted_there:
        return f"attach the volume to {reading.there}: there it is no mount of its own"
    scope = f" ({tier.scope})" if tier and tier.scope else ""
    return f"are both boxes in the same region?{scope}; rent the second one there, or let results come home instead"


def _tier(profile: Profile, path: str) -> Tier | None:
    return next((tier for tier in profile.tiers if tier.path == path), None)


def _verb(profile: Profile) -> str:
    verb = profile.verb()
    return f"`{verb.name}`" if verb else "the end"
