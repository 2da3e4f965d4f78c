"""A project's file may make a platform's facts more cautious, never less: the stricter of two profiles, field by field.

A project is untrusted code. Its facts about verbs and survival decide what may be deleted without a receipt, so the
shipped facts and the person's own take precedence. Each field of a profile has its rule in a table below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from leasehold.model.platform.profile import (
    NO,
    UNCONFIRMED,
    UNKNOWN,
    YES,
    Clock,
    Environment,
    NeverRule,
    Profile,
    Relaxed,
    Source,
    Spot,
    Tier,
    Traits,
    Verb,
)

Rule = Callable[[Any, Any], Any]  # (without the project's file, with it) -> the value used
Record = TypeVar("Record", Tier, Verb, Clock, Spot, Environment, NeverRule, Traits)
Way = tuple[str, ...]

SIMULATED, NOT_RENTED, UNMETERED = "simulated", "workstation", "n/a"
_MILD = ("park", "cheaper", "leave")


@dataclass(frozen=True)
class Loosening:
    """A fact that the project's file states less cautiously; `way` is the path of its key."""

    way: Way
    said: Any
    used: Any
    verb: str = ""
    end: str = ""
    decides: bool = False

    def at(self, where: str) -> Relaxed:
        """Format it for people, with the file and line."""
        key = ".".join(part for part in self.way if part)
        if len(self.way) > 1 and self.way[0] in ("tiers", "verbs", "clocks"):
            key = ".".join([f"{self.way[0]}[{self.way[1]}]", *self.way[2:]])
        return Relaxed(key, _spell(self.said), _spell(self.used), where, self.verb, self.end, self.decides)


def _spell(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_spell(item) for item in value)}]"
    if isinstance(value, Source):
        return f"{value.url} ({value.confidence}, {value.verified})"
    if isinstance(value, bool):
        return str(value).lower()
    return str(getattr(value, "name", value)) or '""'


# ---------------------------------------------------------------- rules


def free(base: Any, over: Any) -> Any:
    """Use the project's value: nothing depends on it, or it only concerns the project's own code on the box."""
    return over


def kept(base: Any, over: Any) -> Any:
    """Keep the value without the project: neither is more cautious."""
    return base


def either(base: bool, over: bool) -> bool:
    """Use either: True is the cautious answer."""
    return base or over


def both(base: bool, over: bool) -> bool:
    """Require both: False is the cautious answer."""
    return base and over


def union(base: tuple[Any, ...], over: tuple[Any, ...]) -> tuple[Any, ...]:
    """Use the union: nothing may be removed."""
    return over if set(base) <= set(over) else (*base, *(item for item in over if item not in base))


def common(base: tuple[Any, ...], over: tuple[Any, ...]) -> tuple[Any, ...]:
    """Use the intersection: nothing may be added."""
    return over if set(over) <= set(base) else tuple(item for item in base if item in over)


def smaller(base: Any, over: Any) -> Any:
    """Use the smaller limit; 0 or None is no limit."""
    return min(base, over) if base and over else base or over


def sooner(base: float | None, over: float | None) -> float | None:
    """Use the shorter time; None is not known."""
    return min((value for value in (base, over) if value is not None), default=None)


def larger(base: float, over: float) -> float:
    """Use the longer time."""
    return max(base, over)


def first_of(*order: str) -> Rule:
    """Use the word that comes first in this order, the most cautious first; an unknown word counts as the first."""

    def rule(base: str, over: str) -> str:
        rank = {word: index for index, word in enumerate(order)}
        return base if rank.get(base, -1) < rank.get(over, -1) else over

    return rule


def doubtful(base: Source, over: Source) -> Source:
    """Use the more doubtful source: unconfirmed, then older; a project cannot renew a date."""
    return base if _doubt_rank(base) >= _doubt_rank(over) else over


def _doubt_rank(source: Source) -> tuple[bool, bool, str]:
    inverted = "".join(chr(ord("9") - ord(char) + ord("0")) if char.isdigit() else char for char in source.verified)
    return source.confidence in UNCONFIRMED, source.confidence != "own", inverted


survival = first_of(NO, UNKNOWN, YES)

TIER: Mapping[str, Rule] = {
    "name": free, "path": free, "also": free, "roles": free,  # a tier that moved survives nothing for certain: _tier
    "survives_stop": survival, "survives_destroy": survival, "survives_balance_zero": survival,
    "source": doubtful, "where": free, "speed": free, "size": free, "inode_cap": free, "scope": free, "note": free,
    "cap_bytes": smaller, "cap_inodes": smaller, "shared": either, "optional": either, "own_mount": either,
    "rates": union, "stated": kept,
}  # fmt: skip
VERB: Mapping[str, Rule] = {
    "name": free, "kind": first_of("release", "delete-storage", "end", "leave", "cheaper", "park"),
    "ends": first_of("destroy", "stop", "nothing"), "stops_compute": kept, "stops_all": kept, "reversible": both,
    "deletes": free, "keeps": free,  # derived from `ends` and the tiers that are used: _verb
    "by": kept, "steps": kept, "source": doubtful, "native": kept, "command": kept, "still_billed": union, "note": free,
}  # fmt: skip
CLOCK: Mapping[str, Rule] = {
    "name": free, "starts": kept, "after": free, "after_s": free,  # the sooner one: _clock
    "effect": kept, "source": doubtful, "deletes": union, "do": free,
}  # fmt: skip
SPOT: Mapping[str, Rule] = {
    "available": kept, "source": doubtful, "model": free, "signal": free, "grace_s": sooner,
    "effect": first_of("destroy", "stop", "nothing"), "resume": free,
}  # fmt: skip
NEVER: Mapping[str, Rule] = {
    "name": free, "commands": union, "outcome": first_of("refuse", "warn"), "why": free, "source": doubtful,
    "unless": common, "do": free,
}  # fmt: skip
ENVIRONMENT: Mapping[str, Rule] = {
    "contract": free, "interpreter": free, "hook": free, "variables": free, "no_proxy": free, "tensorboard_dir": free,
    "credentials": kept, "never": union, "rules": free, "note": free,  # rules: by name, _rules
}  # fmt: skip
TRAITS: Mapping[str, Rule] = {
    "kind": kept, "meter_stop_verb": kept, "meter_stop_irreversible": kept, "spot_available": kept,
    "detach_primitive": free, "spot_grace": free, "shared_fs": free, "inode_cap": free, "free_egress": free,
    "china_mirror_needed": free, "host_driver_cuda_max": free, "local_nvme": free,
}  # fmt: skip
PROFILE: Mapping[str, Rule] = {
    "landlord": kept, "reached": kept, "billing": kept, "billing_source": kept, "boot_s": larger, "signs": kept,
    "gotchas": union, "id": free, "title": free, "engine": free, "detach": free, "network": free, "conveniences": free,
    "boot": free, "notes": free, "relaunch": free, "origin": free, "relaxed": free,
    "traits": free, "tiers": free, "verbs": free, "clocks": free, "spot": free, "environment": free,  # tables above
}  # fmt: skip
_DECIDING = (TIER, VERB, TRAITS)  # tables of facts that a teardown depends on
_WORDS_ONLY = ("source", "rates", "gotchas", "still_billed", "spot_available")  # no teardown depends on these


# ---------------------------------------------------------------- merging


@dataclass
class _Guard:
    """One comparison; collects the facts that the project's file stated less cautiously."""

    defines: bool  # the project's file defines this platform; it corrects none that is known without it
    found: list[Loosening] = field(default_factory=list)

    def note(self, way: Way, said: Any, used: Any, **about: Any) -> None:
        self.found.append(Loosening(way, said, used, **about))

    def record(self, table: Mapping[str, Rule], base: Record, over: Record, way: Way, verb: str = "") -> Record:
        """Apply a table to two records of one kind."""
        values = {}
        for name, rule in table.items():
            said = getattr(over, name)
            values[name] = used = rule(getattr(base, name), said)
            if used != said:
                decides = table in _DECIDING and name not in _WORDS_ONLY
                end = name.removeprefix("survives_") if name.startswith("survives_") else ""
                keys: Way = ("survives", end) if end else (name,)
                self.note((*way, *keys), said, used, verb=verb, end=end, decides=decides)
        return replace(over, **values)


def guard(base: Profile | None, over: Profile, *, defines: bool = False) -> tuple[Profile, list[Loosening]]:
    """Return the stricter of a profile without (base) and with (over) a project's files, and the refused facts.

    `defines`: only the project's files define this platform; base is then the profile outside them that they extend.
    """
    at = _Guard(defines)
    traits = _traits(at, base, over)
    tiers = _tiers(at, base, over)
    verbs = _verbs(at, base, over, tiers)
    values: dict[str, Any] = {"traits": traits, "tiers": tiers, "verbs": verbs}
    if base is None:
        landlord = "person" if over.landlord == SIMULATED else over.landlord
        if landlord != over.landlord:
            at.note(("landlord",), over.landlord, landlord, decides=True)
        return replace(over, landlord=landlord, **values), at.found
    values["clocks"] = _clocks(at, base, over)
    values["spot"] = over.spot if defines else at.record(SPOT, base.spot, over.spot, ("spot",))
    values["environment"] = _environment(at, base, over)
    for name, rule in PROFILE.items():
        said = getattr(over, name)
        if name in values or rule is free or (defines and not _is_looser(name, base, said)):
            continue
        values[name] = used = rule(getattr(base, name), said)
        if used != said:
            at.note((name,), said, used, decides=name in ("landlord", "reached"))
    return replace(over, **values), at.found


def _is_looser(name: str, base: Profile, said: Any) -> bool:
    """Return whether a platform that the project defines may not state this beside the one it extends."""
    return name == "landlord" and said == SIMULATED != base.landlord


def _traits(at: _Guard, base: Profile | None, over: Profile) -> Traits:
    old, new = base.traits if base else None, over.traits
    if old is not None and not at.defines:
        return at.record(TRAITS, old, new, ("traits",))
    kind, verb = new.kind, new.meter_stop_verb
    if kind == NOT_RENTED and (old is None or old.kind != NOT_RENTED):
        kind = old.kind if old else "ssh"
        at.note(("traits", "kind"), new.kind, kind, decides=True)
    if verb == UNMETERED and (old is None or old.meter_stop_verb != UNMETERED):
        verb = over.verbs[0].name
        at.note(("traits", "meter_stop_verb"), new.meter_stop_verb, verb, decides=True)
    return replace(new, kind=kind, meter_stop_verb=verb)


def _tiers(at: _Guard, base: Profile | None, over: Profile) -> tuple[Tier, ...]:
    known = {tier.name: tier for tier in base.tiers} if base else {}
    tiers = [_tier(at, known.get(tier.name), tier) for tier in over.tiers]
    if not at.defines:
        for name in [name for name in known if name not in {tier.name for tier in tiers}]:
            taken = {role for tier in tiers for role in tier.roles}
            back = tuple(role for role in known[name].roles if role not in taken)
            tiers.append(replace(known[name], roles=back))
            at.note(("remove", "tiers", name), "removed", "kept", decides=True)
        order = list(known)
        tiers.sort(key=lambda tier: order.index(tier.name) if tier.name in known else len(order))
    return tuple(tiers)


def _tier(at: _Guard, base: Tier | None, over: Tier) -> Tier:
    """Tighten a tier; a new or moved one survives nothing for certain."""
    if base is None:
        base = replace(over, survives_stop=UNKNOWN, survives_destroy=UNKNOWN, survives_balance_zero=UNKNOWN)
    elif (base.path, base.also) != (over.path, over.also) or "state" in set(over.roles) - set(base.roles):
        ends = ("survives_stop", "survives_destroy", "survives_balance_zero")
        base = replace(base, **{name: survival(getattr(base, name), UNKNOWN) for name in ends})
    return at.record(TIER, base, over, ("tiers", over.name))


def _verbs(at: _Guard, base: Profile | None, over: Profile, tiers: Sequence[Tier]) -> tuple[Verb, ...]:
    known = {verb.name: verb for verb in base.verbs} if base else {}
    verbs = [_verb(at, known.get(verb.name), verb, tiers) for verb in over.verbs]
    if not at.defines:
        for name in [name for name in known if name not in {verb.name for verb in verbs}]:
            verbs.append(_deleting(known[name], (), tiers))
            at.note(("remove", "verbs", name), "removed", "kept", verb=name, decides=True)
        order = list(known)  # the first verb of all, or of its kind, is used if none is named
        verbs.sort(key=lambda verb: order.index(verb.name) if verb.name in known else len(order))
    return tuple(verbs)


def _verb(at: _Guard, base: Verb | None, over: Verb, tiers: Sequence[Tier]) -> Verb:
    """Tighten a verb; one that only the project names deletes everything and cannot be undone."""
    if base is None:
        kind = "end" if over.kind in _MILD else over.kind
        by = "person" if over.by == SIMULATED else over.by
        at.note(("verbs", over.name), "a verb of its own", "irreversible, deleting", verb=over.name, decides=True)
        everything = tuple(tier.name for tier in tiers)
        return replace(over, kind=kind, by=by, reversible=False, ends="destroy", deletes=everything, keeps=())
    used = at.record(VERB, base, over, ("verbs", over.name), verb=over.name)
    return _deleting(used, (*base.deletes, *over.deletes), tiers)


def _deleting(verb: Verb, also: Sequence[str], tiers: Sequence[Tier]) -> Verb:
    """Return what a verb deletes: whatever is not known to survive, and what either profile names."""
    gone = tuple(t.name for t in tiers if t.survives(verb.ends) != YES or t.name in also or t.name in verb.deletes)
    return replace(verb, deletes=gone, keeps=tuple(tier.name for tier in tiers if tier.name not in gone))


def _clocks(at: _Guard, base: Profile, over: Profile) -> tuple[Clock, ...]:
    known = {clock.name: clock for clock in base.clocks}
    clocks = [_clock(at, known[clock.name], clock) if clock.name in known else clock for clock in over.clocks]
    if not at.defines:
        for name in [name for name in known if name not in {clock.name for clock in clocks}]:
            clocks.append(known[name])
            at.note(("remove", "clocks", name), "removed", "kept")
    return tuple(clocks)


def _clock(at: _Guard, base: Clock, over: Clock) -> Clock:
    used = at.record(CLOCK, base, over, ("clocks", over.name))
    earlier = base.after_s is not None and over.after_s is not None and over.after_s <= base.after_s
    if earlier or over.after == base.after:
        return used
    at.note(("clocks", over.name, "after"), over.after, base.after)
    return replace(used, after=base.after, after_s=base.after_s)


def _environment(at: _Guard, base: Profile, over: Profile) -> Environment:
    if at.defines:
        return over.environment
    used = at.record(ENVIRONMENT, base.environment, over.environment, ("environment",))
    known = {rule.name: rule for rule in base.environment.rules}
    rules = [
        at.record(NEVER, known[rule.name], rule, ("environment", "never", rule.name)) if rule.name in known else rule
        for rule in used.rules
    ]
    for name in [name for name in known if name not in {rule.name for rule in rules}]:
        rules.append(known[name])
        at.note(("environment", "remove", "never", name), "removed", "kept")
    return replace(used, rules=tuple(rules))
