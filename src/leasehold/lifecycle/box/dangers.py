"""What a platform does to money and data unattended, and how old these facts are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from leasehold.kit.text.units import local_day
from leasehold.ledger import box_book
from leasehold.model.lease.box import SSH
from leasehold.model.platform.platform_wording import say_clock
from leasehold.model.run.note import Note, Report

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.lifecycle.machine.box import Box
    from leasehold.model.platform.profile import Clock, Profile, Source

_STARTS_NOW = {
    "opened": "if it was opened today",
    "stopped": "if it is stopped today",
    "released": "if it is released today",
    "run-start": "if the run begins now",
}


def dangers(profile: Profile, now_unix: float) -> list[str]:
    """List what this platform does to money and data unattended, and how old these facts are."""
    lines = [_say_dated(clock, now_unix) for clock in profile.clocks]
    for verb in profile.verbs:
        undo = "can be undone" if verb.reversible else "cannot be undone"
        ends = f"ends compute billing: {verb.stops_compute}, all billing: {verb.stops_all}"
        rest = f"; still billed: {', '.join(verb.still_billed)}" if verb.still_billed else ""
        lines.append(f"`{verb.name}` {ends}; deletes {', '.join(verb.deletes) or 'nothing'}; {undo}{rest}")
    for tier in profile.tiers:
        survives = f"stop: {tier.survives_stop}, balance zero: {tier.survives_balance_zero}"
        lines.append(f"{tier.name} ({tier.place}) survives {survives}, destroy: {tier.survives_destroy}")
    return [*lines, *_standing(profile, now_unix)]


def say_dangers(profile: Profile, report: Report, now_unix: float) -> None:
    """Report the dangers under one heading, and the platform's conveniences under another."""
    lines = dangers(profile, now_unix)
    report(Note("danger", f"what {profile.title} does to money and data:", {"platform": profile.id}))
    for line in lines:
        report(Note("danger", f"  - {line}"))
    if profile.conveniences:
        report(Note("convenience", f"what {profile.title} makes easier:", {"platform": profile.id}))
    for line in profile.conveniences:
        report(Note("convenience", f"  - {line}"))


def say_once(home: Home, box: Box, profile: Profile, report: Report) -> None:
    """Report them at the first launch on an ssh: address; a box of the book was introduced when it was added."""
    rented = profile.landlord != "simulated" and profile.traits.kind != "workstation"
    if not rented or not box.name.startswith(SSH) or box_book.introduced(home.ledger, box.name, profile.id):
        return
    say_dangers(profile, report, time.time())
    box_book.introduce(home.ledger, box.name, profile.id)


def _say_dated(clock: Clock, now_unix: float) -> str:
    """Format a deadline with its date, where it starts now or by an act possible now."""
    if clock.after_s is None or clock.starts not in _STARTS_NOW:
        return say_clock(clock)
    day = local_day(now_unix + clock.after_s)
    return f"{say_clock(clock)}; {_STARTS_NOW[clock.starts]}: {day}"


def _standing(profile: Profile, now_unix: float) -> list[str]:
    """Format how old a profile's facts are, and how many of them should be checked again."""
    sources = [source for _, source in profile.sources()]
    oldest, newest = min(sources, key=_month), max(sources, key=_month)
    span = oldest.verified if oldest.verified == newest.verified else f"{oldest.verified} to {newest.verified}"
    said = f"these {len(sources)} facts: confirmed {span}"
    read = [source for source in sources if source.confidence != "own"]  # facts vouched for here do not age
    if not read:
        return [f"{said}, assumed or vouched for by the profile itself"]
    months = min(read, key=_month).months_old(now_unix)
    said += ", the oldest " + ("this month" if months <= 0 else f"{months} month{'s' if months > 1 else ''} ago")
    doubtful = sum(bool(source.doubt(now_unix)) for source in sources)
    return [said + (f"; stale or unconfirmed: {doubtful} (lease platforms check {profile.id})" if doubtful else "")]


def _month(source: Source) -> str:
    return source.verified
