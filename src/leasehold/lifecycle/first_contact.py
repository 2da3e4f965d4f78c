"""First contact with a box: its host key is pinned and shown, its door tried, its platform's dangers said aloud."""

from __future__ import annotations

import time
from dataclasses import dataclass

from leasehold.errors import LinkError
from leasehold.model.box import BoxEntry
from leasehold.model.note import Note, Report
from leasehold.model.platform_words import say_clock
from leasehold.model.profile import STALE_MONTHS, Profile, Source
from leasehold.model.verdict import Finding, Outcome
from leasehold.transport import host_keys
from leasehold.transport.flavour import DoorReading, Patience, detect
from leasehold.transport.openssh import SshTransport

from .boxes import way_in
from .home import Home

_NEW = "pinned; compare it with the console's, if that shows one"
_VOUCHED = "is in your own known_hosts; pinned"
_MARKS = {Outcome.PASSED: "ok ", Outcome.REFUSED: "NO ", Outcome.UNKNOWN: "?? "}


@dataclass(frozen=True)
class Contact:
    """What a contact showed: the door, the host key as pinned now, and how that came to be trusted."""

    reading: DoorReading
    fingerprint: str = ""
    how: str = ""


def meet(home: Home, entry: BoxEntry, expected: str = "", patience: Patience | None = None) -> Contact:
    """Connect and pin; with an expected fingerprint, accept that key and no other, whatever was pinned before."""
    transport = way_in(home, entry, only_pins=bool(expected))
    if not isinstance(transport, SshTransport):
        return Contact(detect(transport, patience=patience))
    if expected:
        return _meet_expected(home, entry, expected, patience)
    first = not transport.pinned
    reading = detect(transport, patience=patience)
    vouched = transport.pin_trusted()
    fingerprint = transport.fingerprint()
    if first and fingerprint:
        home.ledger.append("host_pinned", box=entry.name, fingerprint=fingerprint)
    how = _VOUCHED if vouched else _NEW if first else "as pinned before"
    return Contact(reading, fingerprint, how)


def dangers(profile: Profile, now_unix: float) -> list[str]:
    """List what this platform does to money and data when nobody looks."""
    lines = [say_clock(clock) for clock in profile.clocks]
    for verb in profile.verbs:
        undo = "can be undone" if verb.reversible else "cannot be undone"
        ends = f"ends compute billing: {verb.stops_compute}, all billing: {verb.stops_all}"
        lines.append(f"`{verb.name}` {ends}; deletes {', '.join(verb.deletes) or 'nothing'}; {undo}")
    for tier in profile.tiers:
        survives = f"stop: {tier.survives_stop}, balance zero: {tier.survives_balance_zero}"
        lines.append(f"{tier.name} ({tier.place}) survives {survives}, destroy: {tier.survives_destroy}")
    return lines + sorted({_standing(verb.source, now_unix) for verb in profile.verbs})


def say_dangers(profile: Profile, report: Report, now_unix: float) -> None:
    """Report the dangers under one heading."""
    lines = dangers(profile, now_unix)
    report(Note("danger", f"what {profile.title} does to money and data:", {"platform": profile.id}))
    for line in lines:
        report(Note("danger", f"  - {line}"))


def say_finding(finding: Finding, report: Report) -> None:
    """Report one finding with its mark."""
    hint = f"\n      -> {finding.hint}" if finding.hint else ""
    data = {"outcome": finding.outcome.value, "what": finding.what, "hint": finding.hint}
    kind = "finding" if finding.outcome is Outcome.PASSED else "warning"
    report(Note(kind, f"  {_MARKS[finding.outcome]} {finding.what}{hint}", data))


def _meet_expected(home: Home, entry: BoxEntry, expected: str, patience: Patience | None) -> Contact:
    transport = way_in(home, entry, only_pins=True)
    assert isinstance(transport, SshTransport)
    before = transport.fingerprint()
    kept = None if before.startswith(expected) else host_keys.set_aside(transport.pins, time.time())
    try:
        reading = detect(transport, patience=patience)
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


def _standing(source: Source, now_unix: float) -> str:
    months = source.months_old(now_unix)
    stale = f"; that is {months} months ago, so look at the console yourself" if months > STALE_MONTHS else ""
    return f"these facts: confirmed {source.verified}, source: {source.confidence}{stale}"
