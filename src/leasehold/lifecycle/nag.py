"""What every command says first: runs that have ended on boxes that still bill."""

from __future__ import annotations

from dataclasses import dataclass

from leasehold.ledger import books
from leasehold.model.words import ago

from .home import Home

_ENDED = ("finished", "failed", "stopped")


@dataclass(frozen=True)
class Nag:
    """One reason to act: a run that ended, how long ago, what the box costs, and the next command."""

    run: str
    state: str
    idle_s: float
    box: str
    price: str
    next_command: str

    def __str__(self) -> str:
        meter = f"{self.box} costs {self.price}" if self.price else f"{self.box} may still bill"
        return f"{self.run} {self.state} {ago(self.idle_s)} ago and {meter}. Next: {self.next_command}"


def nags(home: Home, now_unix: float) -> list[Nag]:
    """Find ended runs on leases that are open and metered; reads the ledger only."""
    if not (home.path / "ledger.sqlite").exists():
        return []
    metered = {
        lease.id: lease for lease in books.leases(home.ledger, only_open=True) if lease.box != "local" or lease.price
    }
    found = []
    for lease in metered.values():
        records = books.runs(home.ledger, lease=lease.id)
        if not records or any(record.state not in _ENDED for record in records):
            continue  # something still runs there, so the box is not idle
        newest = max(records, key=lambda record: record.seen_unix)
        home_already = bool(newest.receipt_json) or bool(newest.waived)
        verb = "down" if home_already or newest.state != "finished" else "pull"
        found.append(
            Nag(
                newest.run,
                newest.state,
                now_unix - newest.seen_unix,
                lease.box,
                lease.price,
                f"lease {verb} {newest.run}",
            )
        )
    return found
