"""The wording of a platform's facts: first what stops the meter, what that deletes, and the next clock."""

from __future__ import annotations

from .profile import Clock, Profile, Source, Tier, Verb

_STARTS = {
    "opened": "the box is opened",
    "stopped": "the box is stopped",
    "idle": "it idles",
    "balance-zero": "the balance is used up",
    "contract-end": "the contract ends",
    "run-start": "the run begins",
    "released": "the box is released",
    "notice": "a notice comes",
}


def first_lines(profile: Profile) -> tuple[str, str, str]:
    """Return the three things to know before renting."""
    verb = profile.verb()
    if verb is None or verb.stops_compute == "n/a":
        return ("stops the meter: nothing bills here", "deletes: nothing", f"next clock: {next_clock(profile)}")
    return (
        f"stops the meter: {say_verb(verb)}",
        f"deletes: {say_loss(profile, verb)}",
        f"next clock: {next_clock(profile)}",
    )


def say_verb(verb: Verb) -> str:
    """Name a verb, what it ends, and whether it can be undone."""
    native = f" ({verb.native})" if verb.native else ""
    undo = "can be undone" if verb.reversible else "cannot be undone"
    rest = f"; still billed: {', '.join(verb.still_billed)}" if verb.still_billed else ""
    return f"{verb.name}{native}: {say_ends(verb)}; {undo}{rest}"


def say_ends(verb: Verb) -> str:
    """Describe which meters a verb ends."""
    if verb.stops_compute == "n/a":
        return "nothing bills"
    if verb.stops_compute != "yes":
        part = {"no": "does NOT end the compute meter", "mixed": "lowers the compute meter, does not end it"}
        return part.get(verb.stops_compute, f"ends the compute meter: {verb.stops_compute}")
    whole = {
        "yes": "ends all billing",
        "no": "ends the compute meter, not all billing",
        "mixed": "ends the box's billing, not that of everything beside it",
    }
    return whole.get(verb.stops_all, f"ends all billing: {verb.stops_all}")


def say_loss(profile: Profile, verb: Verb) -> str:
    """Name what a verb deletes and what it keeps."""
    gone = [_place(profile, name, verb) for name in verb.deletes]
    kept = [_place(profile, name, None) for name in verb.keeps]
    return (", ".join(gone) or "nothing") + (f"; keeps {', '.join(kept)}" if kept else "; keeps nothing")


def next_clock(profile: Profile) -> str:
    """Describe the clock that a person meets first: the one their own verb starts, then those already running."""
    verb = profile.verb()
    follows = {"stop": "stopped", "destroy": "released"}.get(verb.ends if verb else "", "")
    order = (follows, "opened", "run-start", "stopped", "idle", "contract-end", "balance-zero", "released", "notice")
    chosen = min(profile.clocks, key=lambda clock: (order.index(clock.starts), _wait_s(clock)), default=None)
    return say_clock(chosen) if chosen else "none known"


def _wait_s(clock: Clock) -> float:
    """Return the sort key: at once comes first, an unknown time last."""
    if clock.after_s is not None:
        return clock.after_s
    return 0.0 if clock.after == "at once" else float("inf")


def say_clock(clock: Clock) -> str:
    """Describe when something happens by itself, and what to do about it."""
    do = f" ({clock.do})" if clock.do else ""
    when = "" if clock.after == "never" else f"{say_when(clock)}: "
    return f"{clock.name}: {when}{clock.effect}{do}"


def say_when(clock: Clock) -> str:
    """Describe when a clock fires."""
    start = _STARTS[clock.starts]
    if clock.after_s is not None:
        return f"{clock.after} after {start}"
    if clock.after == "never":
        return "never"
    return f"when {start}" if clock.after == "at once" else f"{clock.after}, from when {start}"


def say_survival(tier: Tier) -> list[str]:
    """Format one row of the survival matrix."""
    return [
        tier.name,
        tier.place,
        ", ".join(tier.roles) or "-",
        tier.survives_stop,
        tier.survives_destroy,
        tier.survives_balance_zero,
    ]


def say_source(source: Source, now_unix: float) -> str:
    """Format where a fact was read and how old that is."""
    months = source.months_old(now_unix)
    age = "this month" if months <= 0 else f"{months} month{'s' if months > 1 else ''} ago"
    doubt = source.doubt(now_unix)
    return f"{source.url} ({source.confidence}, {source.verified}, {age})" + (f"  ! {doubt}" if doubt else "")


def say_deleted(profile: Profile, verb: Verb) -> str:
    """Name the tiers that a verb deletes; those only not known to survive it are marked."""
    return ", ".join(
        name + (" (not known to survive)" if _unsure(profile, name, verb) else "") for name in verb.deletes
    )


def _unsure(profile: Profile, name: str, verb: Verb | None) -> bool:
    tier = profile.tier(name)
    return bool(tier and verb is not None and verb.ends != "nothing" and tier.survives(verb.ends) == "unknown")


def _place(profile: Profile, name: str, verb: Verb | None) -> str:
    tier = profile.tier(name)
    if tier is None:
        return name
    return f"{name} ({tier.place}{'; not known to survive' if _unsure(profile, name, verb) else ''})"
