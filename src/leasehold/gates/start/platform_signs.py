"""Check whether the box contradicts the platform that it is booked as. Pure: signs as read in, findings out."""

from __future__ import annotations

from dataclasses import dataclass, field

from leasehold.model.platform.platform_signs import (
    Match,
    PlatformSigns,
    Read,
    match,
    pointed_to,
    say_missing,
    say_seen,
    say_sign,
)
from leasehold.model.platform.profile import Profile
from leasehold.model.run.verdict import Finding, passes, refuses, warns


@dataclass(frozen=True)
class SignReadings:
    """What is known of a box's signs, and what depends on it."""

    platforms: tuple[PlatformSigns, ...]
    read: Read = field(default_factory=dict)
    box: str = ""
    priced: bool = False
    chosen: bool = False  # a person named the platform


def judge_signs(profile: Profile, readings: SignReadings) -> list[Finding]:
    """Refuse a priced run on a box that shows signs of another platform; warn where no billing is known."""
    if profile.landlord == "simulated" or profile.traits.kind == "workstation":
        return []  # nothing is rented
    own = match(PlatformSigns(profile.id, profile.title, profile.signs), readings.read)
    others = [found for found in pointed_to(readings.platforms, readings.read) if found.platform != profile.id]
    if own.contradicted:
        return [_against(profile, _say_own(own), others, readings)]
    if own.seen:
        return [passes(f"platform {profile.id}: {say_seen([own])}")]
    if not others:
        unseen = f"platform {profile.id}: unconfirmed, no sign of it or of another platform was seen"
        return [passes(unseen)] if profile.signs else []
    if readings.chosen and not profile.signs:
        names = ", ".join(found.platform for found in others)
        return [passes(f"platform {profile.id}: chosen by you, although {say_seen(others)} (as on {names})")]
    return [_against(profile, say_seen(others), others, readings)]


def _against(profile: Profile, why: str, others: list[Match], readings: SignReadings) -> Finding:
    names = " or ".join(found.platform for found in others)
    like = f", as on {names}" if names else ""
    what = f"this box is booked as {profile.id} ({profile.title}), and its signs contradict that: {why}{like}"
    hint = rebook_hint(readings.box, names or "ID", profile)
    if readings.priced:
        return refuses(what, hint)
    return warns(what, f"a run with a price is refused here; {hint}")


def rebook_hint(box: str, names: str, profile: Profile) -> str:
    """Explain how to book the box under the right platform."""
    first = names.partition(" or ")[0]
    if box.startswith("ssh:"):
        hint = f"lease run --on {box} --platform {first}"
    else:
        hint = f"lease box add {box or 'NAME'} --replace --platform {first}"
    if profile.signs:
        return f"{hint}; if the profile is wrong, correct its signs (docs/platforms-own.md)"
    return f"{hint}; to keep it as it is: the same with --platform {profile.id}"


def _say_own(own: Match) -> str:
    said = [say_missing(sign) for sign in own.missing] + [say_sign(sign) for sign in own.foreign]
    return ", ".join(said)
