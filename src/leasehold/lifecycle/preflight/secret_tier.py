"""Secrets lie on a disk of this box alone: a shared one would expose them to every other box that mounts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leasehold.errors import Refusal
from leasehold.kit.text.safe_text import one_line
from leasehold.ledger.store import Ledger
from leasehold.model.platform.placing import tier_of
from leasehold.model.platform.profile import Profile
from leasehold.model.run.note import Note, Report


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


def warn_shared(profile: Profile, seen: Mapping[str, Any], secrets: Sequence[str], report: Report) -> None:
    """Warn before anything is sent that a cluster has no private place: secrets go to the shared file system."""
    place = seen.get("private_place") or {}
    if not secrets or not _is_one_cluster(profile) or _has_private(profile) or place.get("private", False):
        return
    names, why = ", ".join(secrets), one_line(str(place.get("why") or "the box did not say"))
    text = f"{names} will lie on the shared file system, in {seen['root']}/secrets (0600): no private place, {why}"
    hint = "a home folder that only you can change would be used; or name a private tier as environment.credentials"
    report(Note("warning", f"{text}\n  {hint} in a profile overlay"))


def record_place(ledger: Ledger, run: tuple[str, str], seen: Mapping[str, Any], report: Report) -> None:
    """Record where a cluster keeps secrets and notice addresses of a lease's run, as its login node reports."""
    place = seen.get("private_place")
    if not isinstance(place, dict):
        return
    path, why, private = one_line(str(place.get("path"))), one_line(str(place.get("why"))), bool(place.get("private"))
    ledger.append("private_place", lease=run[0], run=run[1], path=path, private=private, why=why)
    where = "" if private else " (0600), on the shared file system"
    report(Note("private_place", f"secrets and notice addresses lie in {path}{where}: {why}"))


def _has_private(profile: Profile) -> bool:
    tier = profile.tier(profile.environment.credentials)
    return tier is not None and not tier.shared and tier.path.startswith("/")


def _is_one_cluster(profile: Profile) -> bool:
    """Return whether other machines than the reached one do the work: they must read the files, as only you can."""
    return profile.engine == "slurm"
