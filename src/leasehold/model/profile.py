"""What is true of a platform: tiers and what they survive, verbs, detach, clocks. Data, dated, sourced."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Where a fact was read, when it was last confirmed, and how far to trust it."""

    url: str
    verified: str  # YYYY-MM
    confidence: str  # docs, third-party, conflict, unverified, own


@dataclass(frozen=True)
class Tier:
    """A place for files and what it outlives ("yes", "no", "unknown")."""

    name: str
    path: str
    roles: tuple[str, ...]
    survives_stop: str
    survives_destroy: str
    survives_balance_zero: str


@dataclass(frozen=True)
class Verb:
    """A way to stop the meter: what ends, what it deletes, whether it can be undone."""

    name: str
    stops_compute: str
    stops_all: str
    reversible: bool
    deletes: tuple[str, ...]  # tier names
    keeps: tuple[str, ...]
    by: str  # who acts: person, simulated
    steps: tuple[str, ...]
    source: Source


@dataclass(frozen=True)
class Profile:
    """A platform as far as the spine needs it."""

    id: str
    title: str
    landlord: str
    detach: tuple[str, ...]
    tiers: tuple[Tier, ...]
    verbs: tuple[Verb, ...]
    clocks: tuple[str, ...]

    def verb(self, name: str = "") -> Verb | None:
        """Return the named verb, or the first when none is named."""
        return next((verb for verb in self.verbs if not name or verb.name == name), None)

    @property
    def state_tier(self) -> Tier:
        """The tier run folders live on."""
        return next(tier for tier in self.tiers if "state" in tier.roles)
