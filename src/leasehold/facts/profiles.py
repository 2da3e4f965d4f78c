"""Load platform profiles; a fact without its parts does not load."""

from __future__ import annotations

from importlib import resources
from typing import Any

from leasehold.errors import HomeError, UserError
from leasehold.model.profile import Profile, Source, Tier, Verb

_CONFIDENCE = ("docs", "third-party", "conflict", "unverified", "own")
_SURVIVES = ("yes", "no", "unknown")


def names() -> list[str]:
    """List the platforms that have a profile."""
    folder = resources.files("leasehold.facts").joinpath("profiles")
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load(name: str) -> Profile:
    """Load one profile by platform id."""
    import yaml

    if name not in names():
        raise UserError("platform.unknown", f"no profile {name!r}", hint=f"known: {', '.join(names())}")
    file = resources.files("leasehold.facts").joinpath("profiles", f"{name}.yaml")
    try:
        return _profile(yaml.safe_load(file.read_text("utf-8")))
    except (KeyError, TypeError, ValueError) as error:
        raise HomeError("platform.damaged", f"profile {name}.yaml: {error!r}", hint="reinstall leasehold") from None


def _profile(value: dict[str, Any]) -> Profile:
    profile = Profile(
        id=value["id"],
        title=value["title"],
        landlord=value["landlord"],
        detach=tuple(value["detach"]),
        tiers=tuple(_tier(item) for item in value["tiers"]),
        verbs=tuple(_verb(item) for item in value["verbs"]),
        clocks=tuple(value["clocks"]),
    )
    known = {tier.name for tier in profile.tiers}
    for verb in profile.verbs:
        stray = (set(verb.deletes) | set(verb.keeps)) - known
        if stray:
            raise ValueError(f"verb {verb.name} names unknown tiers {sorted(stray)}")
    if not any("state" in tier.roles for tier in profile.tiers):
        raise ValueError("no tier has the role state")
    return profile


def _tier(item: dict[str, Any]) -> Tier:
    survives = [item[f"survives_{end}"] for end in ("stop", "destroy", "balance_zero")]
    if any(value not in _SURVIVES for value in survives):
        raise ValueError(f"tier {item['name']}: survival must be one of {_SURVIVES}, not {survives}")
    return Tier(item["name"], item["path"], tuple(item["roles"]), *survives)


def _verb(item: dict[str, Any]) -> Verb:
    source = Source(**item["source"])
    if source.confidence not in _CONFIDENCE:
        raise ValueError(f"verb {item['name']}: confidence {source.confidence!r}")
    return Verb(
        name=item["name"],
        stops_compute=item["stops_compute"],
        stops_all=item["stops_all"],
        reversible=item["reversible"],
        deletes=tuple(item["deletes"]),
        keeps=tuple(item["keeps"]),
        by=item["by"],
        steps=tuple(item["steps"]),
        source=source,
    )
