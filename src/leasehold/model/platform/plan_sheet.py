"""A plan sheet: a job on a platform, its cost and risk, before any money is spent. Relative times only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from leasehold.kit.files.canonical_json import digest
from leasehold.kit.run.cadence import QUIET_GAP_S, SPOT_GAP_S, interval_s, whole_steps
from leasehold.model.values.money import Money

from .placing import UNKNOWN_TIER
from .profile import Clock, Profile, Tier, Verb

SCHEMA = "leasehold.sheet/1"


@dataclass(frozen=True)
class Wishes:
    """A person's settings beside the job: price, balance, how to end, speed of the line."""

    price: str = ""
    balance: str = ""
    verb: str = ""
    spot: bool = False
    bandwidth_bytes_s: float = 50e6 / 8
    gap_s: float = 0.0  # mean time between interruptions
    cards: int = 0  # of the box; 0: as many as one cell needs
    root: str = ""
    disk_gb: Mapping[str, Decimal] = field(default_factory=dict)  # measured or stated sizes, by tier: those bill


@dataclass(frozen=True)
class Cadence:
    """How often to checkpoint: Young and Daly's W = sqrt(2 x mean time between interruptions x write time)."""

    write_s: float
    gap_s: float
    assumed: bool
    step_s: float = 0.0

    @property
    def every_s(self) -> float:
        """Return seconds between checkpoints, rounded down to whole steps if their length is known."""
        seconds = interval_s(self.write_s, self.gap_s)
        return self.every_steps * self.step_s if self.every_steps else seconds

    @property
    def every_steps(self) -> int:
        """Return steps between checkpoints; 0 if the length of a step is not known."""
        return whole_steps(interval_s(self.write_s, self.gap_s), self.step_s)


@dataclass(frozen=True)
class Forecast:
    """The estimated cost, part by part; None if the job or the price does not give it."""

    boot_s: float
    run_s: float | None
    pull_s: float | None
    hour: Money | None  # cost of one running hour, storage included
    boot: Money | None
    compute: Money | None
    pull: Money | None
    parked_day: Money

    @property
    def total(self) -> Money | None:
        """Return boot, run and pull together; None as long as one of them is unknown."""
        parts = (self.boot, self.compute, self.pull)
        return None if None in parts else sum((part for part in parts if part is not None), Money())

    @property
    def ends_s(self) -> float | None:
        """Return seconds from the start until the results are home."""
        return None if self.run_s is None else self.boot_s + self.run_s + (self.pull_s or 0.0)


@dataclass(frozen=True)
class Ticking:
    """A danger clock, counted from the moment of the plan if its start is known."""

    clock: Clock
    due_s: float | None
    counted_from: str

    def as_dict(self, at_unix: float) -> dict[str, Any]:
        """Return the form for --json, with the date."""
        return {
            "name": self.clock.name,
            "effect": self.clock.effect,
            "deletes": list(self.clock.deletes),
            "after": self.clock.after,
            "counted_from": self.counted_from,
            "date": iso(at_unix + self.due_s) if self.due_s is not None else None,
            "do": self.clock.do,
        }


@dataclass(frozen=True)
class PlanSheet:
    """Job and platform, resolved for people to read."""

    candidate: str
    profile: Profile
    job_sha256: str
    verb: Verb | None
    root: str
    checkpoint: str
    durable: str
    hf_home: str
    cells: int
    at_once: int  # how many of them in parallel
    need_bytes: int
    need_inodes: int
    cadence: Cadence | None
    forecast: Forecast
    soonest_s: float | None  # until the results are home if as many cells as possible run in parallel
    clocks: tuple[Ticking, ...]
    balance_lasts_s: float | None
    wishes: Wishes

    @property
    def state(self) -> Tier:
        """Return the tier of runs and checkpoints; the profile is that of the box, with its root and durable path."""
        return self.profile.state_tier

    @property
    def state_known(self) -> bool:
        """Return whether the profile names the tier that our folder lies on."""
        return self.state.name != UNKNOWN_TIER

    @property
    def survives_verb(self) -> bool:
        """Return whether that tier outlives the intended verb."""
        return self.verb is not None and self.state.name in self.verb.keeps

    def body(self) -> dict[str, Any]:
        """Return the form without dates: equal inputs give equal bodies on every day."""
        verb = self.verb
        return {
            "schema": SCHEMA,
            "candidate": self.candidate,
            "platform": self.profile.id,
            "job": self.job_sha256,
            "engine": self.profile.engine,
            "detach": list(self.profile.detach),
            "paths": {
                "root": self.root,
                "checkpoints": self.checkpoint,
                "durable": self.durable,
                "hf_home": self.hf_home,
            },
            "verb": None if verb is None else _verb_dict(self.profile, verb),
            "state_tier": {
                "name": self.state.name,
                "survives": {end: self.state.survives(end) for end in ("stop", "destroy", "balance_zero")},
                "survives_verb": self.survives_verb,
                **({} if self.state_known else {"known": False}),
            },
            "need": {"bytes": self.need_bytes, "inodes": self.need_inodes, "cells": self.cells},
            **({"at_once": self.at_once} if self.cells > 1 else {}),
            "cadence": None if self.cadence is None else _cadence_dict(self.cadence),
            "forecast": _forecast_dict(self.forecast),
            "balance_lasts_s": self.balance_lasts_s,
            "clocks": [{"name": tick.clock.name, "due_s": tick.due_s} for tick in self.clocks],
        }

    @property
    def sha256(self) -> str:
        """Return the hash of the body."""
        return digest(self.body())

    def as_dict(self, at_unix: float) -> dict[str, Any]:
        """Return the form for --json, with dates counted from a moment."""
        zero = None if self.balance_lasts_s is None else iso(at_unix + self.balance_lasts_s)
        clocks = [tick.as_dict(at_unix) for tick in self.clocks]
        body = {**self.body(), "clocks": clocks, "at": iso(at_unix), "balance_zero": zero}
        return {**body, "sheet_sha256": self.sha256}


def plan_cadence(write_s: float, step_s: float, wishes: Wishes) -> Cadence | None:
    """Calculate the checkpoint interval; None if the write time of a checkpoint is not given."""
    if not write_s:
        return None
    assumed = not wishes.gap_s
    gap = wishes.gap_s or (SPOT_GAP_S if wishes.spot else QUIET_GAP_S)
    return Cadence(write_s, gap, assumed, step_s)


def iso(unix: float) -> str:
    """Format a moment for machines."""
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _verb_dict(profile: Profile, verb: Verb) -> dict[str, Any]:
    return {
        "name": verb.name,
        "native": verb.native,
        "by": verb.by,
        "reversible": verb.reversible,
        "stops_compute": verb.stops_compute,
        "stops_all": verb.stops_all,
        "deletes": list(verb.deletes),
        "keeps": list(verb.keeps),
        "still_billed": list(verb.still_billed),
    }


def _cadence_dict(cadence: Cadence) -> dict[str, Any]:
    return {
        "every_s": round(cadence.every_s, 1),
        "every_steps": cadence.every_steps,
        "write_s": cadence.write_s,
        "gap_s": cadence.gap_s,
        "gap_assumed": cadence.assumed,
    }


def _forecast_dict(forecast: Forecast) -> dict[str, Any]:
    def spelled(money: Money | None) -> dict[str, str] | None:
        return None if money is None else money.as_dict()

    return {
        "boot_s": forecast.boot_s,
        "run_s": forecast.run_s,
        "pull_s": forecast.pull_s,
        "hour": spelled(forecast.hour),
        "boot": spelled(forecast.boot),
        "compute": spelled(forecast.compute),
        "pull": spelled(forecast.pull),
        "total": spelled(forecast.total),
        "parked_day": spelled(forecast.parked_day),
    }
