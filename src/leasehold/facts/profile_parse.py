"""Convert plain data to a Profile: a fact without its parts, or one that contradicts another, does not load."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar

from leasehold.model.platform import profile as words
from leasehold.model.platform.profile import (
    Clock,
    Environment,
    NeverRule,
    Profile,
    Rate,
    Source,
    Spot,
    Tier,
    Traits,
    Verb,
)
from leasehold.model.values.units import parse_duration, parse_size

from .fact_reader import Reader
from .profile_sense import refuse_contradictions
from .sign_parse import parse_signs, parse_sources, sourced

T = TypeVar("T")
_COMMAND = re.compile(r"[\w.+-]+(?:\|[\w.+-]+)*(?: [\w.+/-]+(?:\|[\w.+/-]+)*)*\Z")

_KNOWN = (
    "id", "title", "landlord", "engine", "traits", "sources", "detach", "tiers", "verbs", "clocks", "spot",
    "environment", "network", "conveniences", "billing", "billing_source", "boot", "gotchas", "notes", "relaunch",
    "signs", "reached",
)  # fmt: skip


def parse_profile(value: Any, origin: tuple[str, ...]) -> Profile:
    """Build a profile; ValueError names the key and what it must be."""
    at = Reader(value, "")
    at.only(_KNOWN)
    sources = parse_sources(at)
    tiers = tuple(_each(at, "tiers", lambda item: _tier(item, sources)))
    boot = at.text("boot", "")
    profile = Profile(
        id=at.text("id"),
        title=at.text("title"),
        landlord=at.text("landlord"),
        engine=at.one_of("engine", words.ENGINES, "caretaker"),
        traits=_traits(at.inside("traits")),
        detach=at.texts("detach"),
        tiers=tiers,
        verbs=tuple(_each(at, "verbs", lambda item: _verb(item, sources, tiers))),
        clocks=tuple(_each(at, "clocks", lambda item: _clock(item, sources))),
        spot=_spot(at.inside("spot"), sources),
        environment=_environment(at.inside("environment"), sources),
        network=at.mapping("network"),
        conveniences=at.texts("conveniences", ()),
        billing=at.text("billing", ""),
        billing_source=sourced(at, sources, "billing_source") if at.has("billing") else None,
        boot=boot,
        boot_s=_duration(at, "boot", boot) if boot else 0.0,
        gotchas=at.texts("gotchas", ()),
        notes=at.texts("notes", ()),
        signs=parse_signs(at, sources),
        reached=at.one_of("reached", words.REACHED, "ssh"),
        relaunch=_relaunch(at),
        origin=origin,
    )
    refuse_contradictions(profile)
    return profile


def _relaunch(at: Reader) -> tuple[str, ...]:
    ways = at.texts("relaunch", ())
    for way in ways:
        if way not in ("systemd", "cron") and not way.startswith("onstart:/"):
            raise at.bad("relaunch", f"must be among {', '.join(words.RELAUNCH)}", way)
    return ways


def _each(at: Reader, key: str, build: Callable[[Reader], T]) -> list[T]:
    return [build(item) for item in at.items(key)]


def _traits(at: Reader) -> Traits:
    at.only(words.field_names(Traits))
    free = ("meter_stop_verb", "detach_primitive", "spot_grace", "inode_cap", "kind", "host_driver_cuda_max")
    values = {name: at.text(name) for name in words.field_names(Traits)}
    for name, value in values.items():
        if name not in free and value not in words.TRI_STATE:
            raise at.bad(name, f"must be one of {', '.join(words.TRI_STATE)}", value)
    if values["kind"] not in words.KINDS:
        raise at.bad("kind", f"must be one of {', '.join(words.KINDS)}", values["kind"])
    return Traits(**values)


def _tier(at: Reader, sources: dict[str, Source]) -> Tier:
    at.only((*(set(words.field_names(Tier)) - {"stated"}), "survives"))
    survives = at.inside("survives")
    survives.only(("stop", "destroy", "balance_zero"))
    answers = (words.YES, words.NO, words.UNKNOWN)
    path = at.text("path", "")
    if path and not path.startswith(("/", "~", "$")):
        raise at.bad("path", "must begin with /, ~ or $; use `where` for words", path)
    if not path and not at.text("where", ""):
        raise at.bad("path", "a tier needs a path, or words in `where`", path)
    roles = at.texts("roles", ())
    if set(roles) - set(words.ROLES):
        raise at.bad("roles", f"must be among {', '.join(words.ROLES)}", roles)
    return Tier(
        name=at.text("name"),
        path=path,
        roles=roles,
        survives_stop=survives.one_of("stop", answers),
        survives_destroy=survives.one_of("destroy", answers),
        survives_balance_zero=survives.one_of("balance_zero", answers),
        source=sourced(at, sources),
        where=at.text("where", ""),
        speed=at.text("speed", ""),
        size=at.text("size", ""),
        inode_cap=at.text("inode_cap", ""),
        cap_bytes=_size(at, "cap_bytes"),
        cap_inodes=_whole(at, "cap_inodes"),
        scope=at.text("scope", ""),
        shared=at.flag("shared", False),
        optional=at.flag("optional", False),
        own_mount=at.flag("own_mount", True),
        also=_folders(at),
        rates=tuple(_each(at, "rates", lambda item: _rate(item, sources))) if at.has("rates") else (),
        note=at.text("note", ""),
    )


def _size(at: Reader, key: str) -> int:
    text = at.text(key, "")
    try:
        return parse_size(text) if text else 0
    except ValueError as error:
        raise at.bad(key, f"must be a size such as 200GB ({error})", text) from None


def _whole(at: Reader, key: str) -> int:
    number = at.number(key, Decimal(0))
    if number != int(number):
        raise at.bad(key, "must be a whole number", str(number))
    return int(number)


def _folders(at: Reader) -> tuple[str, ...]:
    also = at.texts("also", ())
    if any(not path.startswith("/") for path in also):
        raise at.bad("also", "must be absolute folders", list(also))
    return also


def _rate(at: Reader, sources: dict[str, Source]) -> Rate:
    at.only(words.field_names(Rate))
    currency = at.text("currency")
    if len(currency) != 3 or not currency.isupper():
        raise at.bad("currency", "must be three capital letters such as USD or CNY", currency)
    return Rate(
        amount=at.number("amount"),
        currency=currency,
        per=at.one_of("per", tuple(words.RATE_UNITS)),
        when=at.one_of("when", words.RATE_WHEN),
        source=sourced(at, sources),
        above_gb=at.number("above_gb", Decimal(0)),
        note=at.text("note", ""),
    )


def _verb(at: Reader, sources: dict[str, Source], tiers: tuple[Tier, ...]) -> Verb:
    """Read a verb; what it deletes follows from the survival matrix, so the two cannot disagree."""
    at.only((*(set(words.field_names(Verb)) - {"deletes", "keeps"}), "deletes_also"))
    ends = at.one_of("ends", words.VERB_ENDS)
    also = at.texts("deletes_also", ())
    stray = set(also) - {tier.name for tier in tiers}
    if stray:
        raise at.bad("deletes_also", "must name tiers of this profile", sorted(stray))
    deletes = tuple(tier.name for tier in tiers if tier.survives(ends) != words.YES or tier.name in also)
    return Verb(
        name=at.text("name"),
        kind=at.one_of("kind", words.VERB_KINDS),
        ends=ends,
        stops_compute=at.one_of("stops_compute", words.TRI_STATE),
        stops_all=at.one_of("stops_all", words.TRI_STATE),
        reversible=at.flag("reversible"),
        deletes=deletes,
        keeps=tuple(tier.name for tier in tiers if tier.name not in deletes),
        by=at.one_of("by", words.ACTORS),
        steps=at.texts("steps"),
        source=sourced(at, sources),
        native=at.text("native", ""),
        command=at.texts("command", ()),
        still_billed=at.texts("still_billed", ()),
        note=at.text("note", ""),
    )


def _clock(at: Reader, sources: dict[str, Source]) -> Clock:
    at.only(tuple(set(words.field_names(Clock)) - {"after_s"}))
    after = at.text("after")
    return Clock(
        name=at.text("name"),
        starts=at.one_of("starts", words.CLOCK_STARTS),
        after=after,
        after_s=_maybe_duration(after),
        effect=at.text("effect"),
        source=sourced(at, sources),
        deletes=at.texts("deletes", ()),
        do=at.text("do", ""),
    )


def _spot(at: Reader, sources: dict[str, Source]) -> Spot:
    at.only(words.field_names(Spot))
    grace = at.number("grace_s", None)
    return Spot(
        available=at.one_of("available", words.TRI_STATE),
        source=sourced(at, sources),
        model=at.text("model", ""),
        signal=at.text("signal", ""),
        grace_s=None if grace is None else float(grace),
        effect=at.one_of("effect", words.VERB_ENDS, "nothing"),
        resume=at.text("resume", ""),
    )


def _environment(at: Reader, sources: dict[str, Source]) -> Environment:
    at.only(tuple(set(words.field_names(Environment)) - {"rules"}))
    texts, rules = at.texts_and_items("never")
    return Environment(
        contract=at.text("contract"),
        interpreter=at.text("interpreter", ""),
        hook=at.text("hook", ""),
        variables=at.mapping("variables") if at.has("variables") else {},
        no_proxy=at.texts("no_proxy", ()),
        tensorboard_dir=at.text("tensorboard_dir", ""),
        credentials=at.text("credentials", ""),
        never=texts,
        rules=tuple(_never_rule(item, sources) for item in rules),
        note=at.text("note", ""),
    )


def _never_rule(at: Reader, sources: dict[str, Source]) -> NeverRule:
    at.only(words.field_names(NeverRule))
    commands = at.texts("commands")
    if not commands:
        raise at.bad("commands", "must name at least one command", list(commands))
    for command in commands:
        if not _COMMAND.match(command):
            wanted = "must be words such as `pip install torch|torchvision`: no path, quote or shell operator"
            raise at.bad("commands", wanted, command)
    return NeverRule(
        name=at.text("name"),
        commands=commands,
        outcome=at.one_of("outcome", words.NEVER_OUTCOMES),
        why=at.text("why"),
        source=sourced(at, sources),
        unless=at.texts("unless", ()),
        do=at.text("do", ""),
    )


def _maybe_duration(text: str) -> float | None:
    try:
        return parse_duration(text)
    except ValueError:
        return None  # "at once", "when the host decides": shown, not counted


def _duration(at: Reader, key: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise at.bad(key, str(error), text) from None
