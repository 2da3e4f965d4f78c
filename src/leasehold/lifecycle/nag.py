"""What every command says first: runs that have ended on boxes that still bill."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.ledger import books
from leasehold.model.lease import Lease, RunRecord
from leasehold.model.money import HourlyPrice
from leasehold.model.words import ago

from .home import Home

if TYPE_CHECKING:
    from leasehold.model.meter import DueClock

_CLOCK_DOUBT_S = 30 * 86400.0  # longer ago, the box's clock is wrong
_ENDED = ("finished", "failed", "stopped")
_JUST_S = 60.0
_SOON_S = 3 * 86400.0
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
    unconfirmed: bool = False  # a stop was asked for, and nobody knows whether it took effect

    def __str__(self) -> str:
        ended = f"just {self.state}" if self.idle_s < _JUST_S else f"{self.state} {ago(self.idle_s)} ago"
        meter = f"{self.box} may still bill"
        if self.unconfirmed:
            meter += f" ({self.price})" if self.price else ""
            meter += ": it was asked to stop and does not answer"
        elif self.price:
            idle = "" if self.idle_s < _JUST_S else f", {HourlyPrice.parse(self.price).cost(self.idle_s)} since then"
            meter = f"{self.box} costs {self.price}{idle}"
        return f"{self.run} {ended} and {meter}. Next: {self.next_command}"


@dataclass(frozen=True)
class ClockNag:
    """A clock that will soon cost data or money, on a box that nobody may be looking at."""

    box: str
    state: str
    clock: DueClock
    in_s: float
    answers: tuple[str, ...] = ()

    def __str__(self) -> str:
        day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.clock.due_unix))
        when = f"in {ago(self.in_s)} ({day})" if self.in_s > 0 else f"since {day}"
        gone = f", and {', '.join(self.clock.deletes)} with it" if self.clock.deletes else ""
        do = f". Now: {self.clock.do}" if self.clock.do else ""
        return f"{self.box} is {self.state}; {when}: {self.clock.effect}{gone}{do}"


def nags(home: Home, now_unix: float) -> list[Nag | ClockNag]:
    """Find ended runs on leases that are open and metered, and clocks about to fire; reads the ledger only."""
    if not (home.path / "ledger.sqlite").exists():
        return []
    metered = {
        lease.id: lease for lease in books.leases(home.ledger, only_open=True) if lease.box != "local" or lease.price
    }
    found: list[Nag | ClockNag] = [nag for lease in metered.values() for nag in _soon(home, lease, now_unix)]
    for lease in (lease for lease in metered.values() if not lease.parked):
        records = books.ended_on(home.ledger, lease.id, _ENDED, _RECENT)
        if not records or not _has_meter(home, lease):
            continue  # something still runs there, so the box is not idle; what a gate refused never ran
        ended = {record.run: _ended_unix(home, record) for record in records}
        newest = max(records, key=lambda record: ended[record.run])
        idle_s = now_unix - ended[newest.run]
        told = newest.run, newest.state, idle_s, lease.box, lease.price
        found.append(Nag(*told, *_next(home, lease, newest), lease.off_unknown))
    return found


def _has_meter(home: Home, lease: Lease) -> bool:
    """Whether holding it costs money at all: a cluster's login node does not."""
    from .platform_facts import facts_of

    return bool(lease.price) or facts_of(home, lease).metered


def _soon(home: Home, lease: Lease, now_unix: float) -> list[ClockNag]:
    """Clocks that fire within days: those of a parked box, and a balance that runs out."""
    if not lease.parked and not lease.off_unknown and lease.balance is None:
        return []
    from leasehold.model.meter import read_meter

    from .platform_facts import facts_of

    clocks = read_meter(lease, facts_of(home, lease), (), now_unix).clocks
    near = [clock for clock in clocks if clock.due_unix - now_unix < _SOON_S]
    state = "perhaps off" if lease.off_unknown else lease.state
    return [ClockNag(lease.box, state, clock, clock.due_unix - now_unix) for clock in near]


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


def _was_asked(home: Home, lease: Lease) -> bool:
    """Whether a person was told to stop the box, or has to look whether it is off, and nothing was heard since."""
    if lease.off_unknown:
        return True
    return books.latest_of(home.ledger, lease.id, "verb_asked", "lease_parked", "lease_resumed") == "verb_asked"


def _next(home: Home, lease: Lease, record: RunRecord) -> tuple[str, tuple[str, ...]]:
    """Say what to type, and which commands count as having typed it."""
    run = record.run
    if _was_asked(home, lease):  # approved; the person is on the way to the console
        return f"lease down {run} --stopped, once the console shows it", ("down",)
    if not record.owed():  # home, given up, or another box's by now
        return f"lease down {run}", ("down",)
    if record.state == "finished":
        return f"lease pull {run}", ("pull",)
    if record.state == "stopped":
        return f"the same lease run resumes it; lease waive {run} gives it up", ("run", "waive")
    return f"lease doctor {run} says why; the same lease run resumes it", ("doctor", "logs", "run", "waive")
