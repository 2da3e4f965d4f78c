"""A box that a person reported as stopped, and that answers: its lease is reopened, and that is reported.

Any request to that box detects it. A run that has been at work there since before the lease was closed proves that the
box never stopped, so its meter counts throughout; otherwise the person is believed and the box was off until now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leasehold.errors import LeaseholdError
from leasehold.kit.text.safe_text import one_line
from leasehold.kit.text.units import utc_day
from leasehold.ledger import books, box_book
from leasehold.model.lease.box import LOCAL

from .box import Box, closed_on_failure

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.lease import Lease
    from leasehold.platforms.contract import Engine, MachineEngine


_LIVE = ("running", "stopping")
_STALE_S = 30  # an older heartbeat proves nothing about now
_DOUBTED_S = 3 * 86400.0

Answered = Callable[[Iterable[Mapping[str, Any]]], None]


@dataclass(frozen=True)
class ClosedBox(Box):
    """The box of a closed lease, or one that a run left while it was silent: an answer from it is noticed."""

    answered: Answered = field(default=lambda runs: None)
    hush: Callable[[Engine], None] = field(default=lambda engine: None)

    def connect(self) -> MachineEngine:
        """Open one connection, and record that the box answered."""
        return self._noted(super().connect())

    def look_in(self) -> MachineEngine:
        """Open one connection for reading, and record that the box answered."""
        return self._noted(super().look_in())

    def _noted(self, engine: MachineEngine) -> MachineEngine:
        with closed_on_failure(engine):
            self.answered(engine.observe.runs())
            self.hush(engine)
        return engine


def doubtful(home: Home, lease: Lease) -> bool:
    """Return whether a lease was closed by a person's word alone, and no other lease counts its box's cost."""
    if lease.open or lease.box == LOCAL or not books.closed_by_word(home.ledger, lease.id):
        return False
    return not any(other.box == lease.box for other in books.leases(home.ledger, only_open=True))


def is_another(home: Home, lease: Lease) -> bool:
    """Return whether the book has since given the box's name to another machine: its answer would prove nothing."""
    now = box_book.find(home.ledger, lease.box)
    then = box_book.find_at(home.ledger, lease.box, lease.closed_unix)
    keys = {entry.fingerprint for entry in (then, now) if entry is not None and entry.fingerprint}
    return len(keys) == 2


def worth_asking(home: Home, now_unix: float) -> list[Lease]:
    """List leases that a person closed recently: a refresh asks their boxes too."""
    recent = [lease for lease in books.leases(home.ledger) if 0 < now_unix - lease.closed_unix < _DOUBTED_S]
    newest: dict[str, Lease] = {}
    for lease in recent:
        newest.setdefault(lease.box, lease)
    return [lease for lease in newest.values() if doubtful(home, lease) and not is_another(home, lease)]


def note_heard(home: Home, lease: Lease, runs: Iterable[Mapping[str, Any]]) -> None:
    """Reopen a doubtful lease: its box answered, with these runs on it."""
    lease = books.find_lease(home.ledger, lease.id)
    if not doubtful(home, lease) or is_another(home, lease):
        return
    since = {record.run: record.created_unix for record in books.runs(home.ledger, lease=lease.id)}
    live = [str(run.get("run")) for run in runs if _is_live(run)]
    throughout = [run for run in live if since.get(run, lease.closed_unix) < lease.closed_unix]
    off: dict[str, Any] = {} if throughout else {"off_since_unix": lease.closed_unix}
    home.ledger.append("lease_reopened", lease=lease.id, seen="it answered", live=sorted(map(one_line, live)), **off)


def hush_closed(home: Home, lease: Lease, engine: Engine) -> None:
    """Stop the notices of a box that was out of reach when its lease ended, at the next contact."""
    if books.find_lease(home.ledger, lease.id).open:
        return
    for record in books.runs(home.ledger, lease=lease.id):
        with suppress(LeaseholdError):  # gone from there, or held by another home
            if (record.seq or record.state != "planned") and not record.owed():
                engine.hold.hush(record.run, home.ledger.home_id)


def reopened_since(home: Home, seq: int) -> list[str]:
    """List the leases reopened after this event of the ledger."""
    return [_say(books.find_lease(home.ledger, lease), data) for lease, data in books.reopened(home.ledger, seq)]


def _say(lease: Lease, data: Mapping[str, Any]) -> str:
    live = ", ".join(str(run) for run in data.get("live", ())[:5])
    works = f", and {live} is at work on it" if live else ""
    counts = "counts from its beginning" if "off_since_unix" not in data else "counts again from now"
    said = f"{lease.box} answers{works}, but {lease.id} was closed on a person's word that it was stopped"
    price = f" at {lease.price}" if lease.price else ""
    return f"{said}: the lease is open again and {counts}{price}. Next: lease down {lease.id}"


def _is_live(run: Mapping[str, Any]) -> bool:
    return run.get("state") in _LIVE and int(str(run.get("age_s", 0))) <= _STALE_S


def say_closed_by_word(home: Home) -> str:
    """Format which leases were closed by a person's word alone; empty where there are none."""
    found = [lease for lease in books.leases(home.ledger) if doubtful(home, lease)]
    newest: dict[str, Lease] = {}
    for lease in found:
        newest.setdefault(lease.box, lease)
    if not newest:
        return ""
    named = ", ".join(f"{one.id} ({utc_day(one.closed_unix)})" for one in list(newest.values())[:3])
    more = f" and {len(newest) - 3} more" if len(newest) > 3 else ""
    return f"closed on a person's word that the box was stopped, which no platform confirmed: {named}{more}"
