"""The facts of a platform: tiers and what they survive, verbs, clocks, spot, environment. Data, dated, sourced."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any

from leasehold.model.values.money import Money

STALE_MONTHS = 6
HOURS_PER_MONTH = 730  # as the vendors count: 365 days in twelve months
YES, NO, UNKNOWN = "yes", "no", "unknown"

CONFIDENCE = ("docs", "third-party", "conflict", "unverified", "own")
UNCONFIRMED = ("conflict", "unverified")
KINDS = ("ssh-rental", "cloud-api", "kubernetes", "slurm", "ssh", "notebook", "workstation")
ENGINES = ("caretaker", "slurm", "kubernetes", "kaggle", "colab")
RUNNABLE = ("caretaker", "slurm", "kubernetes")  # engines that this version can start work through
ROLES = ("state", "scratch", "durable")
VERB_KINDS = ("park", "release", "delete-storage", "cheaper", "end", "leave")
VERB_ENDS = ("stop", "destroy", "nothing")  # the column of the survival matrix that a verb affects
ACTORS = ("person", "box", "simulated", "scheduler", "nobody", "api")  # api: the landlord's adapter
CLOCK_STARTS = ("opened", "stopped", "idle", "balance-zero", "contract-end", "run-start", "released", "notice")
RATE_UNITS = {"GB/month": HOURS_PER_MONTH, "GB/day": 24, "GB/hour": 1, "month": HOURS_PER_MONTH, "day": 24, "hour": 1}
RELAUNCH = ("systemd", "cron", "onstart:/…")  # for one user with lingering; @reboot; the platform's own start file
REACHED = ("ssh", "here", "kubectl")  # how a box of the platform is reached: by ssh, it is this machine, by kubectl
NEVER_OUTCOMES = ("refuse", "warn")
RATE_WHEN = ("running", "stopped", "always")
ADDRESS_SIGNS = ("host", "user")  # of the ssh address
BOX_SIGNS = ("env", "file", "mount")  # seen on the box itself
SIGN_KINDS = (*ADDRESS_SIGNS, *BOX_SIGNS)
PRESENCE = ("always", "sometimes", "never")  # on the platform's boxes
TRI_STATE = (YES, NO, UNKNOWN, "n/a", "host-dependent", "per-platform", "mixed", "image-dependent", "undocumented")


@dataclass(frozen=True)
class Source:
    """The source of a fact, the date of its last confirmation, and how far to trust it."""

    url: str
    verified: str  # YYYY-MM
    confidence: str
    note: str = ""

    def months_old(self, now_unix: float) -> int:
        """Return the number of months since it was confirmed."""
        year, month = (int(part) for part in self.verified.split("-"))
        now = time.gmtime(now_unix)
        return (now.tm_year - year) * 12 + now.tm_mon - month

    def doubt(self, now_unix: float) -> str:
        """Explain why a destructive act should not rest on this unseen; empty if it may."""
        if self.confidence in UNCONFIRMED:
            what = {"conflict": "sources contradict each other", "unverified": "nobody confirmed it"}
            return what[self.confidence] + (f" ({self.note})" if self.note else "")
        if self.confidence != "own" and self.months_old(now_unix) > STALE_MONTHS:
            return f"confirmed {self.months_old(now_unix)} months ago"
        return ""


@dataclass(frozen=True)
class Rate:
    """The cost of keeping files: per GB, or flat, while running, while stopped, or always."""

    amount: Decimal
    currency: str
    per: str
    when: str
    source: Source
    above_gb: Decimal = Decimal(0)  # the first so many GB are free
    note: str = ""

    def hourly(self, gigabytes: Decimal) -> Decimal:
        """Calculate one hour of this many GB."""
        size = max(Decimal(0), gigabytes - self.above_gb) if self.per.startswith("GB") else Decimal(1)
        return self.amount * size / RATE_UNITS[self.per]


@dataclass(frozen=True)
class Tier:
    """A place for files and what it outlives ("yes", "no", "unknown")."""

    name: str
    path: str  # a path on the box, or empty if it depends on the box
    roles: tuple[str, ...]
    survives_stop: str
    survives_destroy: str
    survives_balance_zero: str
    source: Source
    where: str = ""  # for people
    speed: str = ""
    size: str = ""
    inode_cap: str = ""
    cap_bytes: int = 0  # its maximum size, by the platform's rule; 0: none is known
    cap_inodes: int = 0
    scope: str = ""
    shared: bool = False  # visible to several boxes at once
    optional: bool = False  # not every box has it
    own_mount: bool = True  # a separate mount, not a folder of the system disk
    also: tuple[str, ...] = ()  # other folders on the same disk
    rates: tuple[Rate, ...] = ()
    note: str = ""
    stated: bool = False  # a person named its path for one box; it may be a folder below a mount

    def survives(self, end: str) -> str:
        """Return whether files here outlive stop, destroy or balance_zero."""
        return {
            "stop": self.survives_stop,
            "destroy": self.survives_destroy,
            "balance_zero": self.survives_balance_zero,
            "nothing": YES,
        }[end]

    @property
    def place(self) -> str:
        """Return its path or description."""
        return self.where or self.path


@dataclass(frozen=True)
class Verb:
    """A way to stop the meter: what ends, what it deletes, whether it can be undone."""

    name: str
    kind: str
    ends: str
    stops_compute: str
    stops_all: str
    reversible: bool
    deletes: tuple[str, ...]  # tier names; whatever is not known to survive counts as deleted
    keeps: tuple[str, ...]
    by: str  # who acts
    steps: tuple[str, ...]
    source: Source
    native: str = ""  # the label of the button
    command: tuple[str, ...] = ()  # what the box runs if it acts itself
    still_billed: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Clock:
    """Something that happens by itself and costs money or data."""

    name: str
    starts: str
    after: str
    after_s: float | None  # None: at once, or no known time
    effect: str
    source: Source
    deletes: tuple[str, ...] = ()
    do: str = ""

    def due_unix(self, started_unix: float) -> float | None:
        """Return when it fires, counted from its start."""
        return None if self.after_s is None else started_unix + self.after_s


@dataclass(frozen=True)
class Spot:
    """How cheap capacity is taken away."""

    available: str
    source: Source
    model: str = ""
    signal: str = ""
    grace_s: float | None = None
    effect: str = "nothing"  # stop, destroy or nothing: the survival column of an eviction
    resume: str = ""


@dataclass(frozen=True)
class NeverRule:
    """Commands that must not be run there: the program, its sub-command, further words; `a|b` is either word."""

    name: str
    commands: tuple[str, ...]
    outcome: str  # refuse or warn
    why: str
    source: Source
    unless: tuple[str, ...] = ()  # a command with one of these words is meant otherwise
    do: str = ""


@dataclass(frozen=True)
class Environment:
    """The variables to set before the interpreter starts, and the contract of the image."""

    contract: str
    interpreter: str = ""
    hook: str = ""  # shell commands, run in every shell that is started; a failure aborts
    variables: Mapping[str, str] = field(default_factory=dict)  # {state}, {durable}, {scratch} stand for tier folders
    no_proxy: tuple[str, ...] = ()
    tensorboard_dir: str = ""
    credentials: str = ""  # the tier on which a secret may lie; empty: the state tier
    never: tuple[str, ...] = ()  # for people
    rules: tuple[NeverRule, ...] = ()  # the entries of never that a job's commands are checked against
    note: str = ""


@dataclass(frozen=True)
class Sign:
    """An identifying sign of a platform's box: part of its ssh address, or a variable, file or mount on it."""

    name: str
    kind: str  # one of SIGN_KINDS
    value: str  # a host may hold `*`
    source: Source
    presence: str = "sometimes"  # always: its absence contradicts this platform; never: its presence does

    @property
    def key(self) -> tuple[str, str]:
        """Return what is read, whichever platform asks for it."""
        return self.kind, self.value


@dataclass(frozen=True)
class Traits:
    """One-word answers for tables; three-valued, since many depend on the host or the image."""

    kind: str
    meter_stop_verb: str
    meter_stop_irreversible: str
    detach_primitive: str
    spot_available: str
    spot_grace: str
    shared_fs: str
    inode_cap: str
    free_egress: str
    china_mirror_needed: str
    host_driver_cuda_max: str
    local_nvme: str


@dataclass(frozen=True)
class Relaxed:
    """A fact that a project's file states less cautiously than the profile without that file; it is not used."""

    key: str  # verbs[terminate].reversible
    said: str  # by the project's file
    used: str
    where: str  # file and line
    verb: str = ""  # the verb it concerns; empty: every verb
    end: str = ""  # the column of the survival matrix it concerns; empty: every column
    decides: bool = True  # a teardown depends on it

    def about(self, verb: Verb) -> bool:
        """Return whether an act of this verb rests on the fact."""
        return self.decides and self.verb in ("", verb.name) and self.end in ("", verb.ends)

    def __str__(self) -> str:
        return f"{self.where}: {self.key} is {self.said} in this project's file; {self.used} is used"


@dataclass(frozen=True)
class Profile:
    """A platform: the source of everything that gates, plans and screens state about it."""

    id: str
    title: str
    landlord: str
    engine: str
    traits: Traits
    detach: tuple[str, ...]
    tiers: tuple[Tier, ...]
    verbs: tuple[Verb, ...]
    clocks: tuple[Clock, ...]
    spot: Spot
    environment: Environment
    network: Mapping[str, str]
    conveniences: tuple[str, ...] = ()
    billing: str = ""
    billing_source: Source | None = None
    boot: str = ""
    boot_s: float = 0.0
    gotchas: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    signs: tuple[Sign, ...] = ()  # how a box of this platform is recognised
    reached: str = "ssh"  # one of REACHED
    relaunch: tuple[str, ...] = ()  # ways to start something after a restart, best first
    origin: tuple[str, ...] = ()  # files it was read from, the last wins
    relaxed: tuple[Relaxed, ...] = ()  # facts that a project's file stated less cautiously, and that were refused

    def verb(self, name: str = "") -> Verb | None:
        """Return the named verb (by its own or its native name), or the meter stop verb if none is named."""
        wanted = name or self.traits.meter_stop_verb
        found = next((verb for verb in self.verbs if wanted in (verb.name, verb.native)), None)
        return found or (None if name else next(iter(self.verbs), None))

    @property
    def runnable(self) -> bool:
        """Return whether this version can start work there; otherwise the profile is good for plans only."""
        return self.engine in RUNNABLE

    @property
    def parking(self) -> Verb | None:
        """Return the reversible verb that ends the compute meter, if there is one."""
        return next((verb for verb in self.verbs if verb.kind == "park"), None)

    @property
    def bills(self) -> bool:
        """Return whether the platform is known to bill for compute; for a bare SSH box only a price shows it."""
        verb = self.verb() if self.traits.meter_stop_verb != "n/a" else None
        return verb is not None and verb.stops_compute in (YES, "mixed") and self.landlord != "simulated"

    def tier(self, name: str) -> Tier | None:
        """Return the tier of this name."""
        return next((tier for tier in self.tiers if tier.name == name), None)

    @property
    def state_tier(self) -> Tier:
        """Return the tier that run folders are on."""
        return next(tier for tier in self.tiers if "state" in tier.roles)

    @property
    def durable_tier(self) -> Tier | None:
        """Return the tier that outlives the box, to which results are copied; None if there is none."""
        return next((tier for tier in self.tiers if "durable" in tier.roles), None)

    def behind(self, verb: Verb) -> list[tuple[str, Source]]:
        """List the facts that an act of this verb rests on."""
        facts = [(f"what `{verb.name}` stops and deletes", verb.source)]
        facts += [(f"what {tier.name} survives", tier.source) for tier in self.tiers if tier.source.url]
        return facts

    def doubts(self, verb: Verb, now_unix: float) -> list[str]:
        """List which of those facts are stale, were never confirmed, or are relaxed by a project's file."""
        relaxed = [str(fact) for fact in self.relaxed if fact.about(verb)]
        if not verb.deletes and verb.reversible:
            return relaxed
        said = [(what, source.doubt(now_unix), source.url) for what, source in self.behind(verb)]
        return [f"{what}: {doubt}, {url}" for what, doubt, url in said if doubt] + relaxed

    def storage_per_hour(self, gigabytes: Mapping[str, Decimal], stopped: bool) -> Money:
        """Calculate one hour of keeping so many GB on each tier, running or stopped."""
        whens = ("stopped" if stopped else "running", "always")
        total = Money()
        for tier in self.tiers:
            for rate in tier.rates if tier.name in gigabytes else ():
                if rate.when in whens:
                    total += Money.of(rate.hourly(gigabytes[tier.name]), rate.currency)
        return total

    def sources(self) -> list[tuple[str, Source]]:
        """List every dated fact with its source."""
        facts = [(f"tier {tier.name}", tier.source) for tier in self.tiers if tier.source.url]
        facts += [(f"price of {tier.name}", rate.source) for tier in self.tiers for rate in tier.rates]
        facts += [(f"verb {verb.name}", verb.source) for verb in self.verbs]
        facts += [(f"clock {clock.name}", clock.source) for clock in self.clocks]
        facts += [(f"never {rule.name}", rule.source) for rule in self.environment.rules]
        facts += [(f"sign {sign.name}", sign.source) for sign in self.signs]
        facts += [("billing", self.billing_source)] if self.billing_source else []
        return [*facts, ("spot", self.spot.source)]


def field_names(kind: type[Any]) -> tuple[str, ...]:
    """List a dataclass's fields."""
    return tuple(item.name for item in fields(kind))
