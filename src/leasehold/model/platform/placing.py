"""A profile adapted to one box: the tier that our folder lies on, and the mount of the durable tier."""

from __future__ import annotations

from dataclasses import replace

from .profile import UNKNOWN, YES, Profile, Source, Tier

DEFAULT_ROOT = "~/.leasehold"
UNKNOWN_TIER = "unknown tier"
STATED_TIER = "durable folder"
_UNSOURCED = Source("", "2000-01", "own")  # not documented: stated by a person, or by nobody


def placed(profile: Profile, root: str, durable: str = "") -> Profile:
    """Move the state role to the tier that holds root, and the durable tier to the path that a person named.

    A root outside all tiers gets a new tier with unknown facts. An empty root stays on the state tier.
    """
    if durable:
        profile = _with_durable(profile, durable)
    if not root:
        return profile
    tier = tier_of(profile, root)
    if tier is None:
        where = f"{root}, on no tier that the profile names"
        tier = Tier(UNKNOWN_TIER, "", (), UNKNOWN, UNKNOWN, UNKNOWN, _UNSOURCED, where, own_mount=False)
        profile = _with_tier(profile, tier)
    return _with_state(profile, tier.name)


def tier_of(profile: Profile, path: str) -> Tier | None:
    """Return the tier a path lies on: the deepest whose folder holds it, else a state tier without a folder."""
    folders = [(folder, tier) for tier in profile.tiers for folder in (tier.path, *tier.also)]
    holding = [(len(folder), tier) for folder, tier in folders if folder.startswith("/") and holds(folder, path)]
    if holding:
        return max(holding, key=lambda found: found[0])[1]
    state = profile.state_tier
    return state if not state.path.startswith("/") else None


def copy_tier(profile: Profile) -> Tier | None:
    """Return the durable tier that results are copied to; None if there is none beside the state tier."""
    tier = profile.durable_tier
    return None if tier is None or tier is profile.state_tier else tier


def copies_to(profile: Profile) -> str:
    """Return the folder of the copy on the box; empty if no copy is made, also because its path is not known."""
    tier = copy_tier(profile)
    return tier.path.rstrip("/") + "/leasehold" if tier is not None and tier.path.startswith("/") else ""


def holds(folder: str, path: str) -> bool:
    """Return whether a path is a folder or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _with_durable(profile: Profile, path: str) -> Profile:
    """Set the durable tier's path; a profile without one gets a tier that outlives the box as a person stated."""
    known = profile.durable_tier
    if known is None:
        tier = Tier(STATED_TIER, path, ("durable",), YES, YES, UNKNOWN, _UNSOURCED, own_mount=False, stated=True)
        return _with_tier(profile, tier)
    here = known.path == path
    told = replace(known, path=path, where="", optional=False, stated=not here, own_mount=known.own_mount and here)
    return replace(profile, tiers=tuple(told if tier is known else tier for tier in profile.tiers))


def _with_tier(profile: Profile, tier: Tier) -> Profile:
    """Add a tier; a verb deletes it unless it is known to survive, as every other tier."""
    verbs = tuple(
        replace(verb, keeps=(*verb.keeps, tier.name))
        if tier.survives(verb.ends) == YES
        else replace(verb, deletes=(*verb.deletes, tier.name))
        for verb in profile.verbs
    )
    return replace(profile, tiers=(*profile.tiers, tier), verbs=verbs)


def _with_state(profile: Profile, name: str) -> Profile:
    def roles(tier: Tier) -> tuple[str, ...]:
        others = tuple(role for role in tier.roles if role != "state")
        return ("state", *others) if tier.name == name else others

    if profile.state_tier.name == name:
        return profile
    return replace(profile, tiers=tuple(replace(tier, roles=roles(tier)) for tier in profile.tiers))
