"""Where leasehold's folder and the copies of results lie on a box: checked when they are named, and reported."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from leasehold.errors import UserError
from leasehold.model.platform.placing import DEFAULT_ROOT, UNKNOWN_TIER, copies_to, copy_tier, holds, placed, tier_of
from leasehold.model.platform.profile import YES, Profile, Tier

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.box import BoxEntry


def refuse_durable(home: Home, entry: BoxEntry) -> None:
    """Refuse a durable folder that by the profile cannot outlive the box, or that makes no sense."""
    path, root = entry.durable, entry.root or DEFAULT_ROOT
    if not path.startswith("/") or posixpath.normpath(path) != path or any(ord(char) < 32 for char in path):
        hint = "name a folder on the box, absolute and without .. in it: --durable /mnt/volume"
        raise UserError("box.bad_durable", f"--durable {path!r} is not such a path", hint=hint)
    if holds(root, path):
        raise _useless(f"--durable {path} lies in our own folder {root}", "name a folder on another disk")
    profile = home.shelf().load(entry.platform)
    here = placed(profile, root)
    if here.durable_tier is here.state_tier and not holds(path, root):
        what = f"our folder {root} is on {here.state_tier.name}, which outlives the box: no copy is made"
        raise _useless(what, "leave out --durable, or put --root on another tier")
    tier = tier_of(profile, path)
    if tier is not None and tier.own_mount and tier.path.startswith("/") and "durable" not in tier.roles:
        raise _useless(f"--durable {path} is on {tier.name} ({tier.place}): {_survival(tier)}", _other(home, entry))


def say_places(entry: BoxEntry, profile: Profile) -> list[str]:
    """Format on which tier our folder lies, and whether and where results are copied; profile is placed."""
    root, tier = entry.root or DEFAULT_ROOT, profile.state_tier
    if tier.name == UNKNOWN_TIER:
        lines = [f"our folder {root} is on no tier that the profile names: what it survives is not known"]
    else:
        lines = [f"our folder {root} is on {tier.name}: {_survival(tier)}"]
    return lines + [line for line in (say_copy(profile, entry.name),) if line]


def say_copy(profile: Profile, box: str = "NAME") -> str:
    """Format where results are also copied, or why not; empty where the platform has no such place."""
    tier, to = copy_tier(profile), copies_to(profile)
    if tier is None:
        return ""
    if not to:
        how = f"lease box add {box} … --durable PATH"
        return f"no copy is made on {tier.name} ({tier.place}): its path is not known; {how} names it"
    if tier.stated:
        unproven = f"not proven to be a separate disk; lease box test {box} checks"
        return f"results are copied to {to} ({tier.name}, as you said); {unproven}"
    return f"results are copied to {to} ({tier.name}{', if it is attached' if tier.optional else ''})"


def _survival(tier: Tier) -> str:
    ends = {"stop": tier.survives_stop, "destroy": tier.survives_destroy, "balance zero": tier.survives_balance_zero}
    return "survives " + ", ".join(f"{end}: {answer}" for end, answer in ends.items())


def _other(home: Home, entry: BoxEntry) -> str:
    """Return a hint: a profile of the same family in which this path is durable, where there is one."""
    shelf = home.shelf()
    base = set(shelf.load(entry.platform).origin)
    for name in shelf.names():
        profile = shelf.load(name)
        tier = tier_of(profile, entry.durable)
        family = name != entry.platform and bool(base & set(profile.origin))
        if family and tier is not None and "durable" in tier.roles and tier.survives_destroy == YES:
            return f"if {tier.name} is mounted there: --platform {name}"
    return "name a folder on a disk that outlives the box"


def _useless(what: str, hint: str) -> UserError:
    return UserError("box.durable_useless", what, hint=hint)
