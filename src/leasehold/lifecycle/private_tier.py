"""Secrets lie on a disk of this box alone: a shared one would show them to every other box that mounts it."""

from __future__ import annotations

from collections.abc import Sequence

from leasehold.errors import Refusal
from leasehold.model.profile import Profile, Tier


def refuse_shared(profile: Profile, root: str, secrets: Sequence[str]) -> None:
    """Refuse before a value leaves home, when the box has no private place for it."""
    tier = tier_of(profile, root)
    if not secrets or tier is None or not tier.shared or _has_private(profile) or _is_one_cluster(profile):
        return
    raise Refusal(
        "secret.shared_tier",
        f"{', '.join(secrets)} would lie on {tier.name}, which other boxes see too; nothing was sent",
        seen=f"our folder there is {root}; {tier.place} is shared, and {profile.id} names no private tier",
        hint="--root on a disk of this box alone, or name one as environment.credentials in a profile overlay",
    )


def tier_of(profile: Profile, path: str) -> Tier | None:
    """Return the tier a path lies on: the deepest whose folder holds it, else a state tier without a folder."""
    holding = [tier for tier in profile.tiers if tier.path.startswith("/") and _holds(tier.path, path)]
    if holding:
        return max(holding, key=lambda tier: len(tier.path))
    state = profile.state_tier
    return state if not state.path.startswith("/") else None


def _has_private(profile: Profile) -> bool:
    tier = profile.tier(profile.environment.credentials)
    return tier is not None and not tier.shared and tier.path.startswith("/")


def _is_one_cluster(profile: Profile) -> bool:
    """Whether other machines than the one we reach do the work: they must read what they need, as only you can."""
    return profile.engine == "slurm"


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
