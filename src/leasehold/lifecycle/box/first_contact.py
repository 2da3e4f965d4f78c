"""First contact with a box: pin and show its host key, try to log in, report its platform's dangers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.errors import LinkError
from leasehold.lifecycle.machine.box import way_in
from leasehold.model.run.note import Note, Report
from leasehold.model.run.verdict import Finding, Outcome
from leasehold.transport.flavour import DoorReading, Patience, detect
from leasehold.transport.openssh import SshTransport
from leasehold.transport.ssh import host_keys

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.box import BoxEntry

_NEW = "pinned; compare it with the console's, if that shows one"
_VOUCHED = "is in your own known_hosts; pinned"
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
