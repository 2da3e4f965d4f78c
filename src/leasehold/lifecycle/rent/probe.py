"""Probe what a landlord's disks survive: rent the cheapest box, leave marks on every tier, stop, start, and look."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasehold.errors import BoxError, HomeError, LeaseholdError, UserError
from leasehold.kit.files.atomic import write_atomic
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import way_in
from leasehold.lifecycle.rentals.api_landlord import ApiLandlord
from leasehold.lifecycle.rentals.desk import Desk, patiently
from leasehold.lifecycle.rentals.markets import profile_of
from leasehold.lifecycle.rentals.states import note_holding, note_resumed
from leasehold.model.job.job import Job
from leasehold.model.lease.box import BoxEntry
from leasehold.model.lease.rental import Rental
from leasehold.model.platform.profile import NO, YES, Profile
from leasehold.model.run.note import Note
from leasehold.platforms.contract import BoxState
from leasehold.platforms.landlords.market import Act
from leasehold.transport.openssh import SshTransport

from .allowance import Approve
from .key import public_key
from .offers import OfferWish, offers_for
from .rent_box import RentWish, rent_one
from .wait_ready import wait_ready

_SHELL_S = 60.0
Shell = Callable[[BoxEntry, str], str]


@dataclass(frozen=True)
class Probed:
    """What each tier of a platform was seen to survive, and where the finding was written."""

    platform: str
    box: str
    survives_stop: dict[str, bool]  # by tier
    differs: tuple[str, ...]  # tiers of which the profile says otherwise
    overlay: str
    written: str  # empty: there is an overlay already, and it is not overwritten

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        return dict(vars(self))


def probe(desk: Desk, market: str, approve: Approve, shell: Shell) -> Probed:
    """Rent, mark, stop, start and look; the box is then given back by `lease down`, through its gate."""
    profile = profile_of(desk.home, market)
    if profile.parking is None:
        raise UserError("probe.no_stop", f"{profile.title} has no stop: there is nothing to look at afterwards")
    job = Job("probe", "true", ())
    offers = [one for one in offers_for(desk, job, [market], OfferWish()).found if one.offer.can_park]
    wish = RentWish(f"probe-{market}", (market,), public_key(desk.home))
    rental = rent_one(desk, wish, offers, approve)
    entry = wait_ready(desk, rental)
    marks = _leave_marks(entry, profile, shell)
    desk.report(Note("probe", f"marks are on {', '.join(marks)}; stopping {rental.box} now"))
    _stop_and_start(desk, rental, profile)
    entry = wait_ready(desk, rental)
    seen = {tier: shell(entry, f"test -e {path} && echo there || echo gone") == "there" for tier, path in marks.items()}
    return _written(desk, profile, rental, seen)


def ssh_shell(home: Home) -> Shell:
    """Return a function that runs one command on a box over ssh."""

    def run(entry: BoxEntry, command: str) -> str:
        way = way_in(home, entry)
        assert isinstance(way, SshTransport)
        words = way.person_argv(command, terminal=False)
        done = subprocess.run(words, capture_output=True, timeout=_SHELL_S, check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise BoxError("probe.failed", f"{entry.name} could not run a command of the probe", seen=said)
        return done.stdout.decode("utf-8", "replace").strip()

    return run


def _leave_marks(entry: BoxEntry, profile: Profile, shell: Shell) -> dict[str, str]:
    """Write one small file on each tier that has a path there; a tier that is not there is left out."""
    marks = {}
    name = f".lease-probe-{secrets.token_hex(6)}"
    for tier in profile.tiers:
        folder = {"/": "/var/tmp", "~": '"$HOME"'}.get(tier.path, tier.path)
        if not tier.path.startswith(("/", "~")):
            continue
        path = f"{folder}/{name}"
        if shell(entry, f"(echo probe > {path} && sync) 2>/dev/null && echo kept || echo no") == "kept":
            marks[tier.name] = path
    if not marks:
        raise BoxError("probe.no_tier", f"no tier of {profile.title} is on {entry.name}", hint="lease platforms show")
    return marks


def _stop_and_start(desk: Desk, rental: Rental, profile: Profile) -> None:
    assert profile.parking is not None
    lease = books.find_lease(desk.ledger, rental.lease)
    state = ApiLandlord(desk, rental).act(lease, profile.parking)
    if state is not BoxState.PARKED:
        hint = f"lease down {rental.box} gives it back"
        raise BoxError("probe.not_stopped", f"{rental.box} is {state.value} after the stop", hint=hint)
    market = desk.open(rental.market)
    note_holding(desk, rental, patiently(desk, lambda: market.holding(rental.holding)))
    patiently(desk, lambda: market.act(rental.holding, Act.RESUME))
    note_resumed(desk, books.find_lease(desk.ledger, rental.lease), "started again by the probe")


def _written(desk: Desk, profile: Profile, rental: Rental, seen: dict[str, bool]) -> Probed:
    """Write the finding as an overlay of the profile, unless the person has one already."""
    said = {tier.name: tier.survives_stop for tier in profile.tiers}
    differs = tuple(name for name, kept in seen.items() if said[name] != (YES if kept else NO))
    when = time.strftime("%Y-%m-%d", time.gmtime(desk.clock()))
    note = f"lease landlord probe on {when}: a file on each tier, one stop, one start"
    url = profile.state_tier.source.url  # where the vendor says what the note contradicts or confirms
    overlay = {
        "sources": {"probed": {"url": url, "verified": when[:7], "confidence": "own", "note": note}},
        "tiers": [
            {"name": name, "survives": {"stop": YES if kept else NO}, "source": "probed"} for name, kept in seen.items()
        ],
    }
    text = json.dumps(overlay, indent=2, ensure_ascii=False) + "\n"
    desk.ledger.append("survival_probed", platform=profile.id, survives_stop=seen, at_unix=desk.clock())
    return Probed(profile.id, rental.box, seen, differs, text, _write(desk.home, profile.id, text))


def _write(home: Home, platform: str, text: str) -> str:
    if home.config is None:
        return ""
    path = Path(home.config) / "profiles" / f"{platform}.yaml"
    if path.exists():
        return ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(str(path), text.encode("utf-8"))
        home.shelf().load(platform)
    except OSError as error:
        raise HomeError("probe.unwritable", f"{path}: {error.strerror}", hint="mend the folder") from None
    except LeaseholdError:
        path.unlink(missing_ok=True)
        raise
    return str(path)
