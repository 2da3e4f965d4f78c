"""The two-box probe: write a note to a shared disk from one box, look for it from another, delete it."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.errors import BoxError, LinkError, UserError
from leasehold.gates.start.sharing import SharedReading, Sight
from leasehold.kit.text.safe_text import one_line
from leasehold.lifecycle.machine.box import Box, find_box

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.platform.profile import Profile
    from leasehold.platforms.contract import Engine


_WAIT_S = 10.0  # network disks show a new file late; one that shows it at once needs no wait


@dataclass(frozen=True)
class Company:
    """A second box of the same platform, from which to look at a shared disk."""

    here: str
    box: Box
    wait_s: float = _WAIT_S


def company(home: Home, here: Box, there: str, profile: Profile) -> Company:
    """Find the second box; it must be a different one of the same platform, which must share something."""
    box = find_box(home, there)
    if box.name == here.name:
        raise UserError("audit.same_box", f"{there} is the box itself", hint="name another with --with")
    if box.platform != here.platform:
        raise UserError(
            "audit.other_platform",
            f"{here.name} is on {here.platform} and {box.name} on {box.platform}; they share no disk we know of",
            hint="name two boxes of one platform; lease box list shows each one's",
        )
    if not shared_paths(profile):
        raise UserError(
            "audit.nothing_shared",
            f"the profile {profile.id} names no disk that several boxes see",
            hint=f"lease platforms show {profile.id}",
        )
    return Company(here.name, box)


def shared_paths(profile: Profile) -> list[str]:
    """List the tiers that several boxes see, as far as their paths are known."""
    return [tier.path for tier in profile.tiers if tier.shared and tier.path.startswith("/")]


def probe_sharing(engine: Engine, with_whom: Company, profile: Profile) -> tuple[SharedReading, ...]:
    """Check every shared tier from both boxes; whatever happens, no reachable note stays behind."""
    paths = shared_paths(profile)
    try:
        other = with_whom.box.connect()
    except (LinkError, BoxError) as error:
        return tuple(_reading(with_whom, path, Sight.UNREACHABLE, error.message) for path in paths)
    with other:
        if _machine(engine) == _machine(other):
            return tuple(_reading(with_whom, path, Sight.SAME_MACHINE) for path in paths)
        return tuple(_look(engine, other, with_whom, path) for path in paths)


def _look(engine: Engine, other: Engine, with_whom: Company, path: str) -> SharedReading:
    name, text = secrets.token_hex(16), secrets.token_hex(32)
    problem = engine.notes.leave_note(path, name, text)
    if problem:
        return _reading(with_whom, path, Sight.UNWRITTEN, problem)
    try:
        found = other.notes.find_note(path, name, with_whom.wait_s)
    except (LinkError, BoxError) as error:
        return _reading(with_whom, path, Sight.UNREACHABLE, error.message)
    finally:
        _take_away(engine, other, path, name)
    disk = dict(found.get("disk") or {})
    if found.get("text") is None:
        if not disk.get("exists"):
            return _reading(with_whom, path, Sight.ABSENT, f"{path} does not exist there", mounted=False)
        waited = f"looked for {with_whom.wait_s:g} s, {disk.get('filesystem')} at {disk.get('mount')}"
        return _reading(with_whom, path, Sight.ABSENT, waited, mounted=bool(disk.get("is_mount")))
    return _reading(with_whom, path, Sight.SAME if found["text"] == text else Sight.DIFFERS)


def _take_away(engine: Engine, other: Engine, path: str, name: str) -> None:
    """Delete the note from the box that wrote it; if that box is lost, from the box that saw it."""
    try:
        engine.notes.drop_note(path, name)
    except (LinkError, BoxError):
        with contextlib.suppress(LinkError, BoxError):
            other.notes.drop_note(path, name)
        raise


def _machine(engine: Engine) -> tuple[str, str]:
    """Identify a machine; containers of one host share its boot id, so their process tables tell them apart."""
    facts = engine.box.probe()
    return str(facts["boot"]), str(facts.get("processes", ""))


def _reading(with_whom: Company, path: str, sight: Sight, detail: str = "", mounted: bool = True) -> SharedReading:
    return SharedReading(path, with_whom.here, with_whom.box.name, sight, one_line(detail), mounted)
