"""What a fake landlord holds: boxes, storage, stock and money, in virtual time."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from tests.fakes.landlords.clock import VirtualClock

HOUR_S = 3600
MONTH_H = 730
STARTING, RUNNING, STOPPING, PARKED, RELEASING, GONE, FAILED = (
    "starting",
    "running",
    "stopping",
    "parked",
    "releasing",
    "gone",
    "failed",
)
_NEXT = {STARTING: RUNNING, STOPPING: PARKED, RELEASING: GONE}
Rates = Callable[["FakeBox"], dict[str, Decimal]]


class Houses(Protocol):
    """Where boxes really run; without one they have an address and nothing behind it."""

    def start(self, box: FakeBox) -> tuple[str, int]:
        """Start the box and return where its sshd listens."""

    def stop(self, box: FakeBox) -> None:
        """Stop it; empty what does not survive a stop."""

    def destroy(self, box: FakeBox) -> None:
        """Stop it for ever; empty what does not survive that."""


class EmptyHouses:
    """Addresses with nothing behind them; another address and port at each start."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def start(self, box: FakeBox) -> tuple[str, int]:
        """Give the next address."""
        number = next(self._numbers)
        return f"127.77.{number >> 8 & 255}.{number & 255}", 20000 + number

    def stop(self, box: FakeBox) -> None:
        """Nothing runs."""

    def destroy(self, box: FakeBox) -> None:
        """Nothing runs."""


@dataclass
class FakeBox:
    """One box, whoever asked for it."""

    id: str
    label: str
    card: str
    cards: int
    price: Decimal  # an hour of compute
    disk_gb: Decimal
    made: float
    phase: str = STARTING
    until: float = 0.0  # when the phase ends by itself
    billed: Decimal = Decimal(0)
    address: tuple[str, int] | None = None
    gone_at: float | None = None
    spot: bool = False
    bid: Decimal | None = None
    why: str = ""  # why it stopped, in the landlord's word
    more: dict[str, Any] = field(default_factory=dict)  # the vendor's own fields
    public_key: str = ""  # the key that its sshd lets in


@dataclass
class FakeStore:
    """A volume, a snapshot or an address: it bills until it is deleted."""

    id: str
    kind: str
    label: str
    rate: Decimal  # an hour
    made: float
    size_gb: int = 0
    region: str = ""
    of: str = ""
    billed: Decimal = Decimal(0)


@dataclass
class Faults:
    """Switches: each makes the landlord misbehave in a way that was seen or is documented."""

    lose_creates: list[bool] = field(default_factory=list)  # the next creates get no answer; True: a box was made
    lose_acts: list[bool] = field(default_factory=list)  # the same for acts
    too_fast: list[float | None] = field(default_factory=list)  # the next answers are 429; the number: Retry-After
    odd_made: bool = False  # creates succeed with an answer that nobody can read
    refuse_creates: int = 0  # no capacity although it was offered
    no_cards: bool = False  # boxes come with zero cards
    no_ssh: bool = False  # no address ever appears
    fixed_address: bool = False  # a start gives the same address again
    never_starts: bool = False
    start_fails: bool = False  # a resume finds no card
    destroy_s: float = 0.0  # how long a destroy takes
    stop_s: float = 0.0
    list_lag_s: float = 0.0  # the list shows an older state
    page: int = 0  # items a page at most; 0: the landlord's own
    price_factor: Decimal = Decimal(1)  # prices are higher than when they were offered
    clock_ahead_s: float = 0.0
    down: bool = False  # every answer is 503 with a page in HTML
    garbled: bool = False  # answers are cut off in the middle
    odd_state: str = ""  # a state nobody documented
    odd_page: bool = False  # the second page of a list fails
    slow_s: float = 0.0  # real time before each answer


class World:
    """Boxes and stores of one account, billed by the second."""

    def __init__(self, clock: VirtualClock, houses: Houses | None = None, boot_s: float = 90.0) -> None:
        self.clock = clock
        self.houses = houses or EmptyHouses()
        self.boot_s = boot_s
        self.boxes: dict[str, FakeBox] = {}
        self.stores: dict[str, FakeStore] = {}
        self.stock: dict[str, int] = {}
        self.faults = Faults()
        self.balance: Decimal | None = None  # None: a card pays
        self.spent = Decimal(0)
        self.rates: Rates = lambda box: {RUNNING: box.price}
        self.when_broke: Callable[[], None] = lambda: None
        self._at = clock()

    @property
    def vendor_now(self) -> float:
        """The landlord's clock."""
        return self.clock() + self.faults.clock_ahead_s

    def settle(self) -> None:
        """Let the time pass that has passed: bill it, and carry out what became due."""
        while self._at < self.clock():
            due = [box.until for box in self.boxes.values() if box.phase in _NEXT and box.until > self._at]
            then = min([self.clock(), *due])
            if (broke := self._broke_at()) is not None and broke <= then:
                self._bill_to(max(self._at, broke))
                self.balance = Decimal(0)
                self.when_broke()
                if self._rate() > 0:
                    self.balance = None if self.balance is None else Decimal("-0.0001")
                continue
            self._bill_to(then)
            self._move_on()
        self._move_on()

    def rate_of(self, box: FakeBox) -> Decimal:
        """What a box bills now, an hour."""
        return self.rates(box).get(box.phase, Decimal(0))

    def make(self, box: FakeBox) -> FakeBox:
        """Add a box that starts."""
        self.settle()
        box.until = float("inf") if self.faults.never_starts else self.clock() + self.boot_s
        if self.faults.no_cards:
            box.cards = 0
        self.boxes[box.id] = box
        return box

    def stop(self, box: FakeBox, why: str = "") -> None:
        """Begin to stop a box."""
        self.settle()
        box.why = why
        self._turn(box, STOPPING, self.clock() + self.faults.stop_s)

    def start(self, box: FakeBox) -> None:
        """Begin to start a box."""
        self.settle()
        box.why = ""
        self._turn(box, STARTING, self.clock() + self.boot_s)

    def release(self, box: FakeBox) -> None:
        """Begin to destroy a box."""
        self.settle()
        self._turn(box, RELEASING, self.clock() + self.faults.destroy_s)

    def live(self) -> list[FakeBox]:
        """Boxes that are there, as of the last settlement."""
        return [box for box in self.boxes.values() if box.phase != GONE]

    def listed(self) -> list[FakeBox]:
        """Boxes as a list shows them, which may lag behind."""
        self.settle()
        lag, now = self.faults.list_lag_s, self.clock()
        return [
            box
            for box in self.boxes.values()
            if box.made + lag <= now and (box.phase != GONE or now < (box.gone_at or 0) + lag)
        ]

    def find(self, id: str) -> FakeBox | None:
        """A box that is there."""
        self.settle()
        box = self.boxes.get(id)
        return box if box and box.phase != GONE else None

    # ------------------------------------------------------------ time

    def _turn(self, box: FakeBox, phase: str, until: float) -> None:
        box.phase, box.until = phase, until
        if phase in (STOPPING, RELEASING):
            if not self.faults.fixed_address:
                box.address = None
            (self.houses.stop if phase == STOPPING else self.houses.destroy)(box)
        self._move_on()

    def _move_on(self) -> None:
        for box in self.boxes.values():
            while box.phase in _NEXT and box.until <= self._at:
                box.phase = _NEXT[box.phase]
                if box.phase == RUNNING and (box.address is None or not self.faults.fixed_address):
                    box.address = self.houses.start(box)
                if box.phase == GONE:
                    box.gone_at = box.until
                    self.stock[box.card] = self.stock.get(box.card, 0) + 1

    def _rate(self) -> Decimal:
        rates = [self.rate_of(box) for box in self.boxes.values()] + [one.rate for one in self.stores.values()]
        return sum(rates, Decimal(0))

    def _broke_at(self) -> float | None:
        rate = self._rate()
        if self.balance is None or self.balance < 0 or rate <= 0:
            return None
        return self._at + float(self.balance / rate) * HOUR_S

    def _bill_to(self, then: float) -> None:
        hours = Decimal(then - self._at) / HOUR_S
        for one in (*self.boxes.values(), *self.stores.values()):
            cost = (self.rate_of(one) if isinstance(one, FakeBox) else one.rate) * hours
            one.billed += cost
            self.spent += cost
            if self.balance is not None:
                self.balance -= cost
        self._at = then


_KEY = re.compile(r"(?:ssh|ecdsa|sk)-[\w@.-]+ [A-Za-z0-9+/=]+")


def key_in(text: str) -> str:
    """Find the public key that a start script adds."""
    found = _KEY.search(text)
    return found[0] if found else ""
