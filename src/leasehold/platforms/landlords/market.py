"""The contract of landlords with an API: what can be rented, what is held, and the acts on it.

Every method raises a LandlordError (errors.py) and returns nothing but what the API said in this very call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from leasehold.errors import UserError
from leasehold.model.values.money import HourlyPrice, Money
from leasehold.transport.openssh import SshAddress

_LABEL = re.compile(r"[a-z][a-z0-9-]{2,47}\Z")
_PUBLIC_KEY = re.compile(r"(ssh|ecdsa|sk)-[\w@.-]+ [A-Za-z0-9+/=]+( [^\x00-\x1f\x7f]*)?\Z")  # it goes into scripts


class Kind(Enum):
    """What is held."""

    BOX = "box"
    VOLUME = "volume"
    SNAPSHOT = "snapshot"
    ADDRESS = "address"


class State(Enum):
    """The state of a holding; a word that we do not know is UNKNOWN, never GONE."""

    STARTING = "starting"
    RUNNING = "running"
    PARKING = "parking"
    PARKED = "parked"
    RELEASING = "releasing"
    GONE = "gone"
    FAILED = "failed"  # it bills or may bill, and does not become RUNNING by itself
    UNKNOWN = "unknown"


class Act(Enum):
    """What a landlord can be asked to do with a holding."""

    PARK = "park"
    RESUME = "resume"
    RELEASE = "release"  # end a box; its storage that outlives it goes on
    DELETE_STORAGE = "delete-storage"  # delete a volume or a snapshot, or give an address back
    RAISE_BID = "raise-bid"


class Why(Enum):
    """Why a box is not running although nobody asked for that."""

    OUTBID = "outbid"
    PREEMPTED = "preempted"
    BALANCE = "balance"  # the account has no money left
    CONTRACT_END = "contract-end"
    LANDLORD = "landlord"  # anything else that the landlord did, or the box by itself


@dataclass(frozen=True)
class Account:
    """Who the key belongs to."""

    id: str  # where the API names no account: key-…, from the key's hash; only the same id proves a holding gone
    name: str
    read_unix: float
    balance: Money | None = None  # None: the API does not tell
    vendor_ahead_s: float = 0.0  # by how much the landlord's clock is ahead of ours


@dataclass(frozen=True)
class Need:
    """What a box must have."""

    cards: tuple[str, ...] = ()  # any of these, as people write them ("A100", "RTX 4090"); empty: any card
    count: int = 1
    card_gb: int = 0
    disk_gb: int = 0
    regions: tuple[str, ...] = ()
    cuda_at_least: str = ""
    spot: bool = False
    most_per_hour: HourlyPrice | None = None
    reliability: float = 0.0


@dataclass(frozen=True)
class Offer:
    """What could be rented at this moment, and every part of its price that the API tells."""

    market: str
    id: str  # opaque: what the same market's rent() needs
    card: str
    count: int
    card_gb: int
    price: HourlyPrice | None  # compute, for all cards together; None: the API tells it only for a box that runs
    read_unix: float
    region: str = ""
    spot: bool = False
    least_bid: HourlyPrice | None = None
    disk_per_gb: HourlyPrice | None = None  # per GB, while running
    disk_per_gb_parked: HourlyPrice | None = None  # None: it cannot be parked, or nobody tells
    egress_per_gb: Money | None = None
    ingress_per_gb: Money | None = None
    can_park: bool = False
    reliability: float | None = None
    stock: int | None = None  # how many there are; None: the API does not tell
    stock_word: str = ""  # the landlord's own word for it
    cuda_at_most: str = ""
    ends_unix: float | None = None  # when a contract ends by itself
    host: str = ""  # the physical machine, where it is known
    note: str = ""


@dataclass(frozen=True)
class RentOrder:
    """One box to be rented; the label finds it again if the answer gets lost."""

    label: str
    offer: Offer
    image: str = ""  # empty: the adapter's default image
    disk_gb: int = 0
    public_key: str = ""  # one line of authorized_keys
    bid: HourlyPrice | None = None
    ends_unix: float | None = None  # a dead man's switch of the landlord's own, where it has one
    volumes: tuple[str, ...] = ()  # ids of holdings of kind VOLUME to attach

    def __post_init__(self) -> None:
        if not _LABEL.match(self.label):
            raise UserError(
                "landlord.bad_label",
                f"{self.label!r} cannot be a label",
                hint="use 3 to 48 lower-case letters, digits and dashes",
            )
        if self.public_key and not _PUBLIC_KEY.match(self.public_key):
            raise UserError(
                "landlord.bad_public_key", "that is not one line of a public key", hint="read it from a .pub file"
            )


@dataclass(frozen=True)
class Holding:
    """One thing of the account that bills or may bill, as the API told it."""

    id: str  # of a box: the provider's id; otherwise kind/ID, so that ids of two kinds never meet
    kind: Kind
    label: str
    state: State
    raw_state: str
    rate: HourlyPrice | None  # what it bills now, also when parked; None: the API does not tell, and no fact does
    address: SshAddress | None = None  # None until the landlord names one; asked anew at every connect
    made_unix: float | None = None  # by our clock
    why: Why | None = None
    billed: Money | None = None  # so far, by the landlord's own count
    cards: int | None = None  # None: the API does not tell
    card: str = ""
    region: str = ""
    ends_unix: float | None = None
    size_gb: float | None = None
    of: str = ""  # the box that a volume, snapshot or address belongs to
    rates: Mapping[str, str] = field(default_factory=dict)  # the parts of the rate, as words for a screen
    note: str = ""  # the landlord's own message


class Market(Protocol):
    """One landlord's API with one key."""

    name: str  # also the platform that its boxes are

    def account(self) -> Account:
        """Return who the key belongs to; raises BadKey if it belongs to nobody."""

    def offers(self, need: Need) -> tuple[Offer, ...]:
        """Return what could be rented now and fits, cheapest first; what has no price comes last."""

    def rent(self, order: RentOrder) -> str:
        """Create a box and return its id; sent once. NoCapacity: none was made. AnswerLost: one may have been."""

    def holdings(self) -> tuple[Holding, ...]:
        """Return everything of the account that bills: boxes, volumes, snapshots, addresses. All of it, or an error."""

    def holding(self, id: str) -> Holding | None:
        """Return one holding; None only if the API proves that the account does not have it."""

    def act(self, id: str, verb: Act, price: HourlyPrice | None = None) -> bool:
        """Ask for an act; asking twice is harmless, and releasing what is gone is done.

        False if only a step towards it was taken (a box that must be off before it can be released is being turned
        off): ask again once the holding shows another state. Poll holding() to see the act done.
        """

    def billed(self, id: str, since_unix: float) -> Money | None:
        """Return the landlord's bill for a holding, also after it is gone; None where the API has none."""
