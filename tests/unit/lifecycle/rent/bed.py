"""A home that rents from landlords in memory, in virtual time; `Killed` ends a process at a chosen moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from leasehold.errors import UserError
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.rent.allowance import RentAsk, Yes
from leasehold.lifecycle.rent.offers import OfferWish, Priced, offers_for
from leasehold.lifecycle.rent.rent_box import RentWish, rent_one
from leasehold.lifecycle.rentals.desk import Desk
from leasehold.model.job.job import Artifact, Job
from leasehold.model.lease.rental import Rental
from leasehold.model.run.note import Note
from leasehold.model.run.receipt import Strength
from leasehold.model.values.money import HourlyPrice
from leasehold.platforms.landlords.market import Market
from tests.fakes.landlords.clock import VirtualClock
from tests.fakes.landlords.memory import MemoryMarket

JOB = Job("toy", "python3 train.py", (Artifact("result.json", "json"),), expect_s=600.0)


class Killed(BaseException):
    """The process ends here, as by kill -9."""


def usd(amount: str) -> HourlyPrice:
    """Return a price per hour."""
    return HourlyPrice(Decimal(amount), "USD")


@dataclass
class Bed:
    """One home, its landlords, and every note it was told."""

    folder: Path
    clock: VirtualClock = field(default_factory=VirtualClock)
    markets: dict[str, Market] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    asked: list[RentAsk] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home = Home(self.folder / "home")
        self.home.ledger._clock = self.clock  # virtual time for every event
        self.desk = Desk(self.home, self.open, self.notes.append, self.clock, self.clock.pass_s)

    def open(self, name: str) -> Market:
        """Open a landlord."""
        if name not in self.markets:
            raise UserError("landlord.unknown", f"no {name} here")
        return self.markets[name]

    def market(self, name: str = "runpod", price: str = "0.40") -> MemoryMarket:
        """Add a landlord in memory."""
        made = MemoryMarket(clock=self.clock, name=name, price=usd(price))
        self.markets[name] = made
        return made

    def offers(self, wish: OfferWish | None = None) -> tuple[Priced, ...]:
        """List what fits the job."""
        return offers_for(self.desk, JOB, list(self.markets), wish or OfferWish()).found

    def rent(self, run: str = "toy-1", approve: Callable[[RentAsk], Yes] | None = None) -> Rental:
        """Rent a box for a run, with a person who says yes."""
        wish = RentWish(run, tuple(self.markets), "ssh-ed25519 AAAA test")
        return rent_one(self.desk, wish, self.offers(), approve or self.yes)

    def yes(self, ask: RentAsk) -> Yes:
        """Say yes, once for each question."""
        self.asked.append(ask)
        return Yes(f"yes-{len(self.asked)}", Strength.TYPED, "me")

    def told(self, kind: str) -> list[str]:
        """List the notes of one kind."""
        return [note.text for note in self.notes if note.kind == kind]
