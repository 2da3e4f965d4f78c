"""Load platform profiles; a fact without its parts does not load."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

from leasehold.errors import HomeError, UserError
from leasehold.model.profile import Profile, Source, Tier, Verb

_CONFIDENCE = ("docs", "third-party", "conflict", "unverified", "own")
_MONTH = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])\Z")
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
        profile = _profile(yaml.safe_load(file.read_text("utf-8")))
        if profile.id != name:
            raise ValueError(f"it calls itself {profile.id}")
        return profile
    except (KeyError, TypeError, ValueError, IndexError, RecursionError, yaml.YAMLError) as error:
        raise HomeError("platform.damaged", f"profile {name}.yaml: {error!r}", hint="reinstall leasehold") from None


def _profile(value: dict[str, Any]) -> Profile:
    profile = Profile(
        id=_word(value, "id"),
        title=_word(value, "title"),
        landlord=_word(value, "landlord"),
        detach=_words(value, "detach"),
        tiers=tuple(_tier(item) for item in value["tiers"]),
        verbs=tuple(_verb(item) for item in value["verbs"]),
        clocks=_words(value, "clocks"),
    )
    if not profile.verbs or not profile.detach:
        raise ValueError("no verb, or no way to detach")
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
    return Tier(_word(item, "name"), _word(item, "path"), _words(item, "roles"), *survives)


def _verb(item: dict[str, Any]) -> Verb:
    source = Source(**{key: _word(item["source"], key) for key in item["source"]})
    if source.confidence not in _CONFIDENCE or not _MONTH.match(source.verified):
        raise ValueError(f"verb {item['name']}: confidence {source.confidence!r}, verified {source.verified!r}")
    if not isinstance(item["reversible"], bool):  # the text "no" would count as true
        raise ValueError(f"verb {item['name']}: reversible must be true or false, not {item['reversible']!r}")
    return Verb(
        name=_word(item, "name"),
        stops_compute=_word(item, "stops_compute"),
        stops_all=_word(item, "stops_all"),
        reversible=item["reversible"],
        deletes=_words(item, "deletes"),
        keeps=_words(item, "keeps"),
        by=_word(item, "by"),
        steps=_words(item, "steps"),
        source=source,
    )


def _word(item: dict[str, Any], key: str) -> str:
    value = item[key]
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key} must be text, not {value!r}")
    return value


def _words(item: dict[str, Any], key: str) -> tuple[str, ...]:
    value = item[key]
    if not isinstance(value, list) or not all(isinstance(word, str) and word for word in value):
        raise ValueError(f"{key} must be a list of texts, not {value!r}")
    return tuple(value)
