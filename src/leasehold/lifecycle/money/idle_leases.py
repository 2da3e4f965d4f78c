"""Warnings before every command: boxes that bill while no run is live on them, each with its cost so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.kit.text.units import utc_minute
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.model.lease.lease import Lease, RunRecord
from leasehold.model.values.money import HourlyPrice
from leasehold.model.values.wording import ago

if TYPE_CHECKING:
    from leasehold.model.lease.meter import DueClock

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
    answers: tuple[str, ...] = ()  # the commands that answer it: a person who types one needs no warning
    cost: str = ""  # of the lease so far
    unconfirmed: bool = False  # a stop was requested, and it is unknown whether it took effect

    def __str__(self) -> str:
        ended = f"just {self.state}" if self.idle_s < _JUST_S else f"{self.state} {ago(self.idle_s)} ago"
        meter = f"{self.box} may still bill (cost unknown)"
        if self.unconfirmed:
            price = f" ({self.price}, {self.cost} so far)" if self.price else " (cost unknown)"
            meter = f"{self.box} may still bill{price}: it was asked to stop and does not answer"
        elif self.price:
            idle = "" if self.idle_s < _JUST_S else f", {HourlyPrice.parse(self.price).cost(self.idle_s)} since then"
            meter = f"{self.box} costs {self.price}{idle}, {self.cost} so far"
        return f"{self.run} {ended} and {meter}. Next: {self.next_command}"

    def answered_by(self, command: str, word: str) -> bool:
        """Return whether a command that names this run, box or lease is the requested one."""
        return command in self.answers and (word == self.box or self.run.startswith(word))


@dataclass(frozen=True)
class IdleNag:
    """A lease that bills and on which no run has started: a gate refused, or the launch failed earlier."""

    lease: str
    box: str
    price: str
    cost: str
    why: str

    def __str__(self) -> str:
        unknown = f"bills, cost unknown (lease box tell {self.box} --price …)"
        meter = f"costs {self.price}, {self.cost} so far" if self.price else unknown
        return f"{self.box} {meter}, and no run is live on it: {self.why}. Next: {self.next_command}"

    @property
    def next_command(self) -> str:
        """Return the command to type."""
        return f"lease run once that is mended, or lease down {self.lease}"

    def answered_by(self, command: str, word: str) -> bool:
        """Return whether the lease is being ended."""
        return command == "down" and word in (self.lease, self.box)


@dataclass(frozen=True)
class ClockNag:
    """A clock that will soon cost data or money, on a box that may be unattended."""

    box: str
    state: str
    clock: DueClock
    in_s: float

    def __str__(self) -> str:
        day = utc_minute(self.clock.due_unix)
        when = f"in {ago(self.in_s)} ({day})" if self.in_s > 0 else f"since {day}"
        gone = f", and {', '.join(self.clock.deletes)} with it" if self.clock.deletes else ""
        do = f". Now: {self.clock.do}" if self.clock.do else ""
        return f"{self.box} is {self.state}; {when}: {self.clock.effect}{gone}{do}"

    def answered_by(self, command: str, word: str) -> bool:
        """Return False: no command stops a clock."""
        return False


AnyNag = Nag | IdleNag | ClockNag


def nags(home: Home, now_unix: float) -> list[AnyNag]:
    """Find leases that are open, metered and without a live run, and clocks about to fire; read the ledger only."""
    if not (home.path / "ledger.sqlite").exists():
        return []
    metered = {
        lease.id: lease for lease in books.leases(home.ledger, only_open=True) if lease.box != "local" or lease.price
    }
    found: list[AnyNag] = [nag for lease in metered.values() for nag in _soon(home, lease, now_unix)]
    busy = _busy_machines(home)
    for lease in metered.values():
        if lease.parked or _first(lease) in busy:
            continue
        records = books.ended_on(home.ledger, lease.id, _ENDED, _RECENT)
        if not records:
            found += _idle(home, lease, now_unix)
            continue
        if not _has_meter(home, lease):
            continue
        ended = {record.run: _ended_unix(home, record) for record in records}
        newest = max(records, key=lambda record: ended[record.run])
        idle_s = now_unix - ended[newest.run]
        told = newest.run, newest.state, idle_s, lease.box, lease.price
        cost = _cost(home, lease, now_unix)
        found.append(Nag(*told, *_next(home, lease, newest), cost, lease.off_unknown))
    return found


def _first(lease: Lease) -> str:
    """Return the lease that counts the meter of this one's machine."""
    return lease.counted_by or lease.id


def _busy_machines(home: Home) -> set[str]:
    """Return machines of several leases on which a run of one may live: none of them is idle."""
    held = books.leases(home.ledger, only_open=True)
    shared = {lease.counted_by for lease in held if lease.counted_by}
    return {
        _first(lease)
        for lease in held
        if _first(lease) in shared
        and books.started_on(home.ledger, lease.id)
        and not books.ended_on(home.ledger, lease.id, _ENDED, _RECENT)
    }


def _idle(home: Home, lease: Lease, now_unix: float) -> list[IdleNag]:
    """Return a warning for a lease on which nothing was started; none for an unpriced box of your own."""
    if books.started_on(home.ledger, lease.id):  # something may be running there
        return []
    from .platform_facts import facts_of

    if not lease.price and not facts_of(home, lease).bills:
        return []
    return [IdleNag(lease.id, lease.box, lease.price, _cost(home, lease, now_unix), _why_idle(home, lease))]


def _why_idle(home: Home, lease: Lease) -> str:
    refused = [
        event
        for event in home.ledger.events(lease=lease.id, kind="gate_judged")
        if event.data.get("outcome") == "refused" and not event.data.get("skipped")
    ]
    if refused:
        return f"the {refused[-1].data.get('gate')} gate refused {refused[-1].run}"
    planned = books.runs(home.ledger, lease=lease.id)
    return f"{planned[0].run} was planned and not started" if planned else "none was started"


def _cost(home: Home, lease: Lease, now_unix: float) -> str:
    if not lease.price:
        return ""
    from .metering import cost_text

    return cost_text(home, lease, now_unix)


def _has_meter(home: Home, lease: Lease) -> bool:
    """Return whether holding it costs money at all: a cluster's login node does not."""
    from .platform_facts import facts_of

    return bool(lease.price) or facts_of(home, lease).metered


def _soon(home: Home, lease: Lease, now_unix: float) -> list[ClockNag]:
    """Return clocks that fire within days: those of a parked box, and a balance that runs out."""
    if not lease.parked and not lease.off_unknown and lease.balance is None:
        return []
    from leasehold.model.lease.meter import read_meter

    from .platform_facts import facts_of

    clocks = read_meter(lease, facts_of(home, lease), (), now_unix).clocks
    near = [clock for clock in clocks if clock.due_unix - now_unix < _SOON_S]
    state = "perhaps off" if lease.off_unknown else lease.state
    return [ClockNag(lease.box, state, clock, clock.due_unix - now_unix) for clock in near]


def _ended_unix(home: Home, record: RunRecord) -> float:
    """Return the end time from the box, else from this home's first report, so that a new look starts no new count."""
    seen = [
        event
        for event in home.ledger.events(run=record.run, kind="run_seen")
        if (event.data.get("state"), event.data.get("seq")) == (record.state, record.seq)
    ]
    said = [(float(event.data.get("changed_unix") or 0), event.t) for event in seen]
    times = [ended if heard - _CLOCK_DOUBT_S < ended < heard else heard for ended, heard in said]
    return min(times, default=record.seen_unix)


def _was_asked(home: Home, lease: Lease) -> bool:
    """Return whether a person was asked to stop the box or check that it is off, with no report since."""
    if lease.off_unknown:
        return True
    return books.latest_of(home.ledger, lease.id, "verb_asked", "lease_parked", "lease_resumed") == "verb_asked"


def _next(home: Home, lease: Lease, record: RunRecord) -> tuple[str, tuple[str, ...]]:
    """Return the command to type, and the commands that count as it."""
    run = record.run
    if _was_asked(home, lease):  # approved; the person is about to act in the console
        return f"lease down {run} --stopped, once the console shows it", ("down",)
    if not record.owed():  # home, given up, or moved to another box
        return f"lease down {run}", ("down",)
    if record.state == "finished":
        return f"lease pull {run}", ("pull",)
    if record.state == "stopped":
        return f"the same lease run resumes it; lease waive {run} gives it up", ("run", "waive")
    return f"lease doctor {run} says why; the same lease run resumes it", ("doctor", "logs", "run", "waive")
