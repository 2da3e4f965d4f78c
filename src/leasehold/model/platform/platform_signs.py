"""Detect a box's platform: the signs of all platforms and their readings in; the matching platforms out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .profile import ADDRESS_SIGNS, BOX_SIGNS, NO, UNKNOWN, YES, Sign

Key = tuple[str, str]
Read = Mapping[Key, str]  # yes, no or unknown, by (kind, value); a missing one is unknown


@dataclass(frozen=True)
class PlatformSigns:
    """One platform's signs."""

    platform: str
    title: str
    signs: tuple[Sign, ...] = ()


@dataclass(frozen=True)
class Match:
    """The readings of one platform's signs: those in favour, and those against."""

    platform: str
    title: str
    seen: tuple[Sign, ...]
    missing: tuple[Sign, ...] = ()  # always present there, but missing here
    foreign: tuple[Sign, ...] = ()  # never present there, but found here

    @property
    def contradicted(self) -> bool:
        """Return whether a sign shows that this is not the platform."""
        return bool(self.missing or self.foreign)


def asked_of_box(platforms: Iterable[PlatformSigns]) -> list[Key]:
    """List the signs to check on the box, each once."""
    keys = (sign.key for known in platforms for sign in known.signs if sign.kind in BOX_SIGNS)
    return list(dict.fromkeys(keys))


def read_address(platforms: Iterable[PlatformSigns], host: str, user: str) -> dict[Key, str]:
    """Read the signs of an ssh address; one that does not match means nothing: boxes have other addresses too."""
    said = {"host": host.lower(), "user": user}
    signs = (sign for known in platforms for sign in known.signs if sign.kind in ADDRESS_SIGNS)
    return {sign.key: YES for sign in signs if fnmatchcase(said[sign.kind], sign.value)}


def match(known: PlatformSigns, read: Read) -> Match:
    """Compare one platform's signs with the readings."""
    answers = [(sign, read.get(sign.key, UNKNOWN)) for sign in known.signs]
    return Match(
        known.platform,
        known.title,
        seen=tuple(sign for sign, answer in answers if answer == YES and sign.presence != "never"),
        missing=tuple(sign for sign, answer in answers if answer == NO and sign.presence == "always"),
        foreign=tuple(sign for sign, answer in answers if answer == YES and sign.presence == "never"),
    )


def pointed_to(platforms: Iterable[PlatformSigns], read: Read) -> list[Match]:
    """List the platforms whose signs were seen and not contradicted."""
    matches = (match(known, read) for known in platforms)
    return [found for found in matches if found.seen and not found.contradicted]


def say_sign(sign: Sign) -> str:
    """Describe one sign as it was seen."""
    return {
        "host": f"the address matches {sign.value}",
        "user": f"the login name is {sign.value}",
        "env": f"the variable {sign.value} is set",
        "file": f"{sign.value} exists",
        "mount": f"{sign.value} is a mount",
    }[sign.kind]


def say_missing(sign: Sign) -> str:
    """Report that a sign which every box of a platform has was not found."""
    return {
        "env": f"the variable {sign.value} is not set",
        "file": f"{sign.value} does not exist",
        "mount": f"{sign.value} is not a mount",
    }[sign.kind]


def say_seen(found: Iterable[Match]) -> str:
    """Describe every sign of these platforms, each once."""
    signs = {sign.key: sign for one in found for sign in one.seen}
    return ", ".join(say_sign(sign) for sign in signs.values())
