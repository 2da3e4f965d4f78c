"""A landlord without a server: the contract of market.py in memory, for tests of what stands on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal

from leasehold.errors import AnswerLost, BadKey, LandlordSaidNo, NoCapacity
from leasehold.model.values.money import HourlyPrice, Money
from leasehold.platforms.landlords.market import (
    Account,
    Act,
    Holding,
    Kind,
    Need,
    Offer,
    RentOrder,
    State,
)
from leasehold.transport.openssh import SshAddress
from tests.fakes.landlords.clock import VirtualClock

HOUR_S = 3600


@dataclass
class MemoryMarket:
    """Boxes start after `boot_s`; a parked box bills its disk; the bill runs in virtual time."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    name: str = "memory"
    stock: int = 3
    price: HourlyPrice = HourlyPrice(Decimal("0.40"), "USD")
    parked: HourlyPrice = HourlyPrice(Decimal("0.02"), "USD")
    boot_s: float = 60.0
    balance: Decimal = Decimal(100)
    key_ok: bool = True
    lose_answers: list[bool] = field(default_factory=list)  # for the next creates: lost, and whether a box was made
    box_at: Callable[[str], SshAddress] = lambda id: SshAddress("127.0.0.1", "root", 22)

    def __post_init__(self) -> None:
        self._boxes: dict[str, Holding] = {}
        self._since: dict[str, float] = {}
        self._bills: dict[str, Decimal] = {}

    def account(self) -> Account:
        """Tell the owner."""
        self._check()
        return Account("acc-1", "me@example.org", self.clock(), Money.of(self.balance - self._spent(), "USD"))

    def offers(self, need: Need) -> tuple[Offer, ...]:
        """One card, while there is stock."""
        self._check()
        if self.stock < 1 or need.count != 1 or (need.cards and "RTX 4090" not in need.cards):
            return ()
        return (
            Offer(self.name, "rtx4090", "RTX 4090", 1, 24, self.price, self.clock(), can_park=True, stock=self.stock),
        )

    def rent(self, order: RentOrder) -> str:
        """Make a box, unless there is none."""
        self._check()
        if self.stock < 1:
            raise NoCapacity("landlord.no_capacity", "memory has no RTX 4090 left")
        lost = self.lose_answers.pop(0) if self.lose_answers else None
        if lost is False:
            raise AnswerLost("landlord.answer_lost", "memory did not answer the create")
        id = f"mem-{len(self._boxes) + 1}"
        self.stock -= 1
        self._boxes[id] = Holding(
            id, Kind.BOX, order.label, State.STARTING, "starting", self.price, made_unix=self.clock(), cards=1
        )
        self._since[id], self._bills[id] = self.clock(), Decimal(0)
        if lost:
            raise AnswerLost("landlord.answer_lost", "memory did not answer the create")
        return id

    def holdings(self) -> tuple[Holding, ...]:
        """Everything that is not gone."""
        self._check()
        self._settle()
        return tuple(box for box in self._boxes.values() if box.state is not State.GONE)

    def holding(self, id: str) -> Holding | None:
        """One box."""
        self._check()
        self._settle()
        box = self._boxes.get(id)
        return box if box and box.state is not State.GONE else None

    def act(self, id: str, verb: Act, price: HourlyPrice | None = None) -> bool:
        """Do it at once."""
        self._check()
        self._settle()
        box = self._boxes.get(id)
        if box is None or box.state is State.GONE:
            if verb in (Act.RELEASE, Act.DELETE_STORAGE):
                return True
            raise LandlordSaidNo("landlord.gone", f"memory has no {id}")
        state = {Act.PARK: State.PARKED, Act.RESUME: State.RUNNING, Act.RELEASE: State.GONE}.get(verb, box.state)
        if verb is Act.RELEASE:
            self.stock += 1
        rate = {State.PARKED: self.parked, State.RUNNING: self.price, State.GONE: None}.get(state, box.rate)
        address = self.box_at(id) if state is State.RUNNING else None
        self._boxes[id] = replace(box, state=state, raw_state=state.value, rate=rate, address=address)
        return True

    def billed(self, id: str, since_unix: float) -> Money | None:
        """The bill so far."""
        self._check()
        self._settle()
        return Money.of(self._bills[id], "USD") if id in self._bills else None

    def _check(self) -> None:
        if not self.key_ok:
            raise BadKey("landlord.bad_key", "memory does not know this key")

    def _settle(self) -> None:
        """Bill what passed, and let boxes come up."""
        for id, box in self._boxes.items():
            if box.rate is not None:
                hours = Decimal(self.clock() - self._since[id]) / HOUR_S
                self._bills[id] += box.rate.amount * hours
            self._since[id] = self.clock()
            up = box.made_unix is not None and self.clock() >= box.made_unix + self.boot_s
            if box.state is State.STARTING and up:
                self._boxes[id] = replace(box, state=State.RUNNING, raw_state="running", address=self.box_at(id))

    def _spent(self) -> Decimal:
        self._settle()
        return sum(self._bills.values(), Decimal(0))
