"""What is true of a platform: tiers and what they survive, verbs, clocks, spot, environment. Data, dated, sourced."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any

from leasehold.model.values.money import Money

STALE_MONTHS = 6
HOURS_PER_MONTH = 730  # as the vendors reckon: 365 days in twelve months
YES, NO, UNKNOWN = "yes", "no", "unknown"

CONFIDENCE = ("docs", "third-party", "conflict", "unverified", "own")
UNCONFIRMED = ("conflict", "unverified")
KINDS = ("ssh-rental", "cloud-api", "kubernetes", "slurm", "ssh", "notebook", "workstation")
ENGINES = ("caretaker", "slurm", "kubernetes", "kaggle", "colab")
RUNNABLE = ("caretaker", "slurm")  # engines that this version can start work through
ROLES = ("state", "scratch", "durable")
VERB_KINDS = ("park", "release", "delete-storage", "cheaper", "end", "leave")
VERB_ENDS = ("stop", "destroy", "nothing")  # which column of the survival matrix a verb makes true
ACTORS = ("person", "box", "simulated", "scheduler", "nobody", "api")  # api: the landlord's adapter
CLOCK_STARTS = ("opened", "stopped", "idle", "balance-zero", "contract-end", "run-start", "released", "notice")
RATE_UNITS = {"GB/month": HOURS_PER_MONTH, "GB/day": 24, "GB/hour": 1, "month": HOURS_PER_MONTH, "day": 24, "hour": 1}
RELAUNCH = ("systemd", "cron", "onstart:/…")  # for one user with lingering; @reboot; the platform's own start file
REACHED = ("ssh", "here")  # how a box of the platform is called: by an ssh address, or it is this very machine
NEVER_OUTCOMES = ("refuse", "warn")
RATE_WHEN = ("running", "stopped", "always")
ADDRESS_SIGNS = ("host", "user")  # of the ssh address
BOX_SIGNS = ("env", "file", "mount")  # seen on the box itself
SIGN_KINDS = (*ADDRESS_SIGNS, *BOX_SIGNS)
PRESENCE = ("always", "sometimes", "never")  # on the platform's boxes
TRI_STATE = (YES, NO, UNKNOWN, "n/a", "host-dependent", "per-platform", "mixed", "image-dependent", "undocumented")


@dataclass(frozen=True)
class Source:
    """Where a fact was read, when it was last confirmed, and how far to trust it."""

    url: str
    verified: str  # YYYY-MM
    confidence: str
    note: str = ""

    def months_old(self, now_unix: float) -> int:
        """Count the months since somebody confirmed it."""
        year, month = (int(part) for part in self.verified.split("-"))
        now = time.gmtime(now_unix)
        return (now.tm_year - year) * 12 + now.tm_mon - month

    def doubt(self, now_unix: float) -> str:
        """Say why a destructive act should not rest on this unseen; empty when it may."""
        if self.confidence in UNCONFIRMED:
            what = {"conflict": "sources contradict each other", "unverified": "nobody confirmed it"}
            return what[self.confidence] + (f" ({self.note})" if self.note else "")
        if self.confidence != "own" and self.months_old(now_unix) > STALE_MONTHS:
            return f"confirmed {self.months_old(now_unix)} months ago"
        return ""


@dataclass(frozen=True)
class Rate:
    """What keeping files costs: per GB, or flat, while running, while stopped, or always."""

    amount: Decimal
    currency: str
    per: str
    when: str
    source: Source
    above_gb: Decimal = Decimal(0)  # the first so many GB are free
    note: str = ""

    def hourly(self, gigabytes: Decimal) -> Decimal:
        """Reckon one hour of this many GB."""
        size = max(Decimal(0), gigabytes - self.above_gb) if self.per.startswith("GB") else Decimal(1)
        return self.amount * size / RATE_UNITS[self.per]


@dataclass(frozen=True)
class Tier:
    """A place for files and what it outlives ("yes", "no", "unknown")."""

    name: str
    path: str  # a path on the box, or empty where that depends on the box
    roles: tuple[str, ...]
    survives_stop: str
    survives_destroy: str
    survives_balance_zero: str
    source: Source
    where: str = ""  # for people
    speed: str = ""
    size: str = ""
    inode_cap: str = ""
    cap_bytes: int = 0  # the most it ever holds, by the platform's rule; 0: none is known
    cap_inodes: int = 0
    scope: str = ""
    shared: bool = False  # seen by several boxes at once
    optional: bool = False  # not every box has it
    own_mount: bool = True  # a mount of its own, not a folder of the system disk
    also: tuple[str, ...] = ()  # other folders on the same disk
    rates: tuple[Rate, ...] = ()
    note: str = ""
    stated: bool = False  # a person named its path for one box; it may be a folder below a mount

    def survives(self, end: str) -> str:
        """Say whether files here outlive stop, destroy or balance_zero."""
        return {
            "stop": self.survives_stop,
            "destroy": self.survives_destroy,
            "balance_zero": self.survives_balance_zero,
            "nothing": YES,
        }[end]

    @property
    def place(self) -> str:
        """Say where it is."""
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
    native: str = ""  # what the button says
    command: tuple[str, ...] = ()  # what the box runs when it acts itself
    still_billed: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Clock:
    """Something that happens by itself and costs money or data."""

    name: str
    starts: str
    after: str
    after_s: float | None  # None: at once, or nobody says when
    effect: str
    source: Source
    deletes: tuple[str, ...] = ()
    do: str = ""

    def due_unix(self, started_unix: float) -> float | None:
        """Say when it fires, counted from its start."""
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
    """What must be set before the interpreter starts, and the contract of the image."""

    contract: str
    interpreter: str = ""
    hook: str = ""  # shell, run in every shell that goes out; its failure aborts
    variables: Mapping[str, str] = field(default_factory=dict)  # {state}, {durable}, {scratch} stand for tier folders
    no_proxy: tuple[str, ...] = ()
    tensorboard_dir: str = ""
    credentials: str = ""  # the tier on which a secret may lie; empty: the state tier
    never: tuple[str, ...] = ()  # for people
    rules: tuple[NeverRule, ...] = ()  # the entries of never that a job's commands are held against
    note: str = ""


@dataclass(frozen=True)
class Sign:
    """Something that shows whose box this is: part of its ssh address, or a variable, file or mount on it."""

    name: str
    kind: str  # one of SIGN_KINDS
    value: str  # a host may hold `*`
    source: Source
    presence: str = "sometimes"  # always: its absence contradicts this platform; never: its presence does

    @property
    def key(self) -> tuple[str, str]:
        """What is read, whichever platform asks for it."""
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
    verb: str = ""  # the verb it is about; empty: every verb
    end: str = ""  # the column of the survival matrix it is about; empty: every column
    decides: bool = True  # a teardown rests on it

    def about(self, verb: Verb) -> bool:
        """Whether an act of this verb rests on the fact."""
        return self.decides and self.verb in ("", verb.name) and self.end in ("", verb.ends)

    def __str__(self) -> str:
        return f"{self.where}: {self.key} is {self.said} in this project's file; {self.used} is used"


@dataclass(frozen=True)
class Profile:
    """A platform: everything gates, plans and screens say of it comes from here."""

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
    relaxed: tuple[Relaxed, ...] = ()  # what a project's file wanted less cautious, and did not get

    def verb(self, name: str = "") -> Verb | None:
        """Return the named verb (by its own or its native name), or the meter stop verb when none is named."""
        wanted = name or self.traits.meter_stop_verb
        found = next((verb for verb in self.verbs if wanted in (verb.name, verb.native)), None)
        return found or (None if name else next(iter(self.verbs), None))

    @property
    def runnable(self) -> bool:
        """Whether this version can start work there; otherwise the profile is good for plans only."""
        return self.engine in RUNNABLE

    @property
    def parking(self) -> Verb | None:
        """The reversible verb that ends the compute meter, if there is one."""
        return next((verb for verb in self.verbs if verb.kind == "park"), None)

    @property
    def bills(self) -> bool:
        """Whether the platform is known to bill for compute; of a bare SSH box only a price says so."""
        verb = self.verb() if self.traits.meter_stop_verb != "n/a" else None
        return verb is not None and verb.stops_compute == YES and self.landlord != "simulated"

    def tier(self, name: str) -> Tier | None:
        """Return the tier of this name."""
        return next((tier for tier in self.tiers if tier.name == name), None)

    @property
    def state_tier(self) -> Tier:
        """The tier run folders live on."""
        return next(tier for tier in self.tiers if "state" in tier.roles)

    @property
    def durable_tier(self) -> Tier | None:
        """The tier that outlives the box, where results are copied besides; None when there is none."""
        return next((tier for tier in self.tiers if "durable" in tier.roles), None)

    def behind(self, verb: Verb) -> list[tuple[str, Source]]:
        """List the facts that an act of this verb rests on."""
        facts = [(f"what `{verb.name}` stops and deletes", verb.source)]
        facts += [(f"what {tier.name} survives", tier.source) for tier in self.tiers if tier.source.url]
        return facts

    def doubts(self, verb: Verb, now_unix: float) -> list[str]:
        """Say which of those facts are stale, were never confirmed, or are relaxed by a project's file."""
        relaxed = [str(fact) for fact in self.relaxed if fact.about(verb)]
        if not verb.deletes and verb.reversible:
            return relaxed
        said = [(what, source.doubt(now_unix), source.url) for what, source in self.behind(verb)]
        return [f"{what}: {doubt}, {url}" for what, doubt, url in said if doubt] + relaxed

    def storage_per_hour(self, gigabytes: Mapping[str, Decimal], stopped: bool) -> Money:
        """Reckon one hour of keeping so many GB on each tier, running or stopped."""
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
