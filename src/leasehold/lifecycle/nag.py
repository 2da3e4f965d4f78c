"""What every command says first: runs that have ended on boxes that still bill."""

from __future__ import annotations

from dataclasses import dataclass

from leasehold.ledger import books
from leasehold.model.lease import Lease, RunRecord
from leasehold.model.money import HourlyPrice
from leasehold.model.words import ago

from .home import Home

_CLOCK_DOUBT_S = 30 * 86400.0  # longer ago, the box's clock is wrong
_ENDED = ("finished", "failed", "stopped")
_JUST_S = 60.0
_RECENT = 8  # of a thousand ended runs, the last to end is among the last to start


@dataclass(frozen=True)
class Nag:
    """One reason to act: a run that ended, how long ago, what the box costs, and the next command."""

    run: str
    state: str
    idle_s: float
    box: str
    price: str
    next_command: str
    answers: tuple[str, ...] = ()  # the commands that are an answer: whoever types one need not be told

    def __str__(self) -> str:
        ended = f"just {self.state}" if self.idle_s < _JUST_S else f"{self.state} {ago(self.idle_s)} ago"
        meter = f"{self.box} may still bill"
        if self.price:
            idle = "" if self.idle_s < _JUST_S else f", {HourlyPrice.parse(self.price).cost(self.idle_s)} since then"
            meter = f"{self.box} costs {self.price}{idle}"
        return f"{self.run} {ended} and {meter}. Next: {self.next_command}"


def nags(home: Home, now_unix: float) -> list[Nag]:
    """Find ended runs on leases that are open and metered; reads the ledger only."""
    if not (home.path / "ledger.sqlite").exists():
        return []
    metered = {
        lease.id: lease for lease in books.leases(home.ledger, only_open=True) if lease.box != "local" or lease.price
    }
    found = []
    for lease in metered.values():
        records = books.ended_on(home.ledger, lease.id, _ENDED, _RECENT)
        if not records:
            continue  # something still runs there, so the box is not idle; what a gate refused never ran
        ended = {record.run: _ended_unix(home, record) for record in records}
        newest = max(records, key=lambda record: ended[record.run])
        idle_s = now_unix - ended[newest.run]
        found.append(Nag(newest.run, newest.state, idle_s, lease.box, lease.price, *_next(home, lease, newest)))
    return found


def _ended_unix(home: Home, record: RunRecord) -> float:
    """When the box says it ended; else when this home first heard of it. Looking again must not begin a new count."""
    seen = [
        event
        for event in home.ledger.events(run=record.run, kind="run_seen")
        if (event.data.get("state"), event.data.get("seq")) == (record.state, record.seq)
    ]
    said = [(float(event.data.get("changed_unix") or 0), event.t) for event in seen]
    times = [ended if heard - _CLOCK_DOUBT_S < ended < heard else heard for ended, heard in said]
    return min(times, default=record.seen_unix)


def _next(home: Home, lease: Lease, record: RunRecord) -> tuple[str, tuple[str, ...]]:
    """Say what to type, and which commands count as having typed it."""
    run = record.run
    if any(home.ledger.events(lease=lease.id, kind="verb_asked")):  # approved; the person is on the way to the console
        return f"lease down {run} --stopped, once the console shows it", ("down",)
    if record.receipt_json or record.waived:
        return f"lease down {run}", ("down",)
    if record.state == "finished":
        return f"lease pull {run}", ("pull",)
    if record.state == "stopped":
        return f"the same lease run resumes it; lease waive {run} gives it up", ("run", "waive")
    return f"lease logs {run} says why; the same lease run resumes it", ("logs", "run", "waive")
