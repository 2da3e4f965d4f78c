"""The way to a rented box: its landlord is asked for the address at each connect; the pinned host key proves it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from leasehold.errors import BoxError, LandlordError, LeaseholdError, LinkError
from leasehold.ledger import box_book
from leasehold.ledger import rentals as book
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.rentals.desk import Desk
from leasehold.lifecycle.rentals.markets import opener
from leasehold.lifecycle.rentals.states import note_holding, why_words
from leasehold.model.lease.box import SSH, BoxEntry
from leasehold.model.run.note import Note
from leasehold.platforms.landlords.market import Holding, State
from leasehold.transport.openssh import SshAddress, SshTransport

_FRESH_S = 10.0  # parallel connections of one pull ask once
_ASK_S = 10.0


@dataclass
class Whereabouts:
    """The present address of one rented box."""

    home: Home
    entry: BoxEntry
    desk: Desk
    _read: float = field(default=0.0)
    _known: SshAddress | None = field(default=None)

    def __call__(self) -> SshAddress:
        """Return the address; a landlord that cannot be asked leaves the last known one, guarded by the host key."""
        if self._known is not None and time.monotonic() - self._read < _FRESH_S:
            return self._known
        try:
            holding = self.desk.open(self.entry.landlord).holding(self.entry.holding)
        except LandlordError as error:
            return self._last_known(error)
        self._note(holding)
        if holding is None or holding.state is not State.RUNNING or holding.address is None:
            raise _not_running(self.entry, holding)
        self._known, self._read = holding.address._replace(identity=self.entry.identity), time.monotonic()
        return self._known

    def _note(self, holding: Holding | None) -> None:
        rental = book.rental_of_box(self.home.ledger, self.entry.name)
        if rental is not None and rental.lease:
            note_holding(self.desk, rental, holding)

    def _last_known(self, error: LeaseholdError) -> SshAddress:
        entry = box_book.find(self.home.ledger, self.entry.name) or self.entry
        if not entry.address:
            raise LinkError(
                "link.no_address", f"where {entry.name} is cannot be asked: {error.message}", hint=error.hint
            ) from None
        self.desk.report(Note("warning", f"{error.message}; trying the last known address of {entry.name}"))
        return SshAddress.parse(entry.address[len(SSH) :])._replace(identity=entry.identity)


def rented_way(home: Home, entry: BoxEntry, *, only_pins: bool = False) -> SshTransport:
    """Return the transport to a rented box; its host key is pinned under the landlord's id, whatever its address."""
    from leasehold.platforms.landlords.markets import Patience

    desk = Desk(home, opener(home, Patience(timeout_s=_ASK_S, tries=2, pauses_s=5.0)))
    last = SshAddress.parse(entry.address[len(SSH) :]) if entry.address else SshAddress(f"{entry.name}.invalid")
    name = f"{entry.landlord}-{entry.holding}"
    return SshTransport(
        last._replace(identity=entry.identity), home.pins(name), name=entry.name, only_pins=only_pins,
        links=None if only_pins else home.links, moves=(Whereabouts(home, entry, desk), name),
    )  # fmt: skip


def _not_running(entry: BoxEntry, holding: Holding | None) -> LeaseholdError:
    """Return why there is nothing to connect to: a box that is gone is no broken link that somebody should wait for."""
    if holding is None or holding.state is State.GONE:
        return BoxError(
            "rent.gone",
            f"{entry.landlord} no longer has {entry.name} ({entry.holding})",
            hint="lease status shows its lease; lease run --again starts on another box",
        )
    reason = why_words(holding) or holding.note
    return LinkError(
        "link.box_not_running",
        f"{entry.landlord} reports {entry.name} {holding.state.value} ({holding.raw_state})",
        seen=reason,
        hint=f"lease box resume {entry.name} starts it again; lease down {entry.name} gives it back",
    )
