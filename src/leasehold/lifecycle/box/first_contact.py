"""First contact with a box: pin and show its host key, try to log in, report its platform's dangers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from leasehold.errors import LinkError
from leasehold.kit.text.units import local_day
from leasehold.ledger import box_book
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box, way_in
from leasehold.model.lease.box import SSH, BoxEntry
from leasehold.model.platform.platform_wording import say_clock
from leasehold.model.platform.profile import Clock, Profile, Source
from leasehold.model.run.note import Note, Report
from leasehold.model.run.verdict import Finding, Outcome
from leasehold.transport.flavour import DoorReading, Patience, detect
from leasehold.transport.openssh import SshTransport
from leasehold.transport.ssh import host_keys

_NEW = "pinned; compare it with the console's, if that shows one"
_VOUCHED = "is in your own known_hosts; pinned"
_STARTS_NOW = {
    "opened": "if it was opened today",
    "stopped": "if it is stopped today",
    "released": "if it is released today",
    "run-start": "if the run begins now",
}
_MARKS = {Outcome.PASSED: "ok ", Outcome.REFUSED: "NO ", Outcome.UNKNOWN: "?? "}


@dataclass(frozen=True)
class Contact:
    """The result of a contact: the door, the host key as pinned now, and why that is trusted."""

    reading: DoorReading
    fingerprint: str = ""
    how: str = ""


def meet(
    home: Home,
    entry: BoxEntry,
    expected: str = "",
    patience: Patience | None = None,
    signs: Sequence[tuple[str, str]] = (),
) -> Contact:
    """Connect and pin; with an expected fingerprint, accept that key and no other, whatever was pinned before."""
    transport = way_in(home, entry, only_pins=bool(expected))
    if not isinstance(transport, SshTransport):
        return Contact(detect(transport, patience=patience, signs=signs))
    if expected:
        return _meet_expected(home, entry, expected, patience, signs)
    first = not transport.pinned
    reading = detect(transport, patience=patience, signs=signs)
    vouched = transport.pin_trusted()
    fingerprint = transport.fingerprint()
    if first and fingerprint:
        home.ledger.append("host_pinned", box=entry.name, fingerprint=fingerprint)
    how = _VOUCHED if vouched else _NEW if first else "as pinned before"
    return Contact(reading, fingerprint, how)


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


def say_finding(finding: Finding, report: Report) -> None:
    """Report one finding with its mark."""
    hint = f"\n      -> {finding.hint}" if finding.hint else ""
    data = {"outcome": finding.outcome.value, "what": finding.what, "hint": finding.hint}
    kind = "finding" if finding.outcome is Outcome.PASSED else "warning"
    report(Note(kind, f"  {_MARKS[finding.outcome]} {finding.what}{hint}", data))


def _meet_expected(
    home: Home, entry: BoxEntry, expected: str, patience: Patience | None, signs: Sequence[tuple[str, str]]
) -> Contact:
    transport = way_in(home, entry, only_pins=True)
    assert isinstance(transport, SshTransport)
    before = transport.fingerprint()
    kept = None if before.startswith(expected) else host_keys.set_aside(transport.pins, time.time())
    try:
        reading = detect(transport, patience=patience, signs=signs)
        shown = transport.fingerprint()
        if not shown.startswith(expected):
            raise LinkError(
                "link.host_key_unexpected",
                f"{entry.name} ({transport.address}) shows another host key than you named; it is not trusted",
                seen=f"it sent {shown}, you named {expected}",
                hint="the console may show the key of another kind; otherwise this is another machine",
            )
    except BaseException:
        if kept:
            kept.replace(transport.pins)
        elif not before:
            transport.pins.unlink(missing_ok=True)
        raise
    if not before.startswith(expected):
        home.ledger.append("host_pinned", box=entry.name, fingerprint=shown, was=before)
    return Contact(reading, shown, "is the one you named; pinned")


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
