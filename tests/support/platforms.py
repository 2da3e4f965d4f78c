"""Made-up platforms for tests: a real profile with other tiers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from leasehold.facts import profiles
from leasehold.model.platform.profile import Profile, Source, Tier

OWN = Source("docs/platforms.md", "2026-11", "own")


def platform(*tiers: Tier, detach: tuple[str, ...] = ("setsid",)) -> Profile:
    """A rental whose state tier is a home folder, with further tiers."""
    base = profiles.load("generic-ssh")
    return replace(base, id="test", title="a test box", detach=detach, tiers=(base.state_tier, *tiers), clocks=())


def volume(path: str, **change: Any) -> Tier:
    """A durable volume at a path."""
    return replace(Tier("volume", path, ("durable",), "yes", "yes", "yes", OWN), **change)
