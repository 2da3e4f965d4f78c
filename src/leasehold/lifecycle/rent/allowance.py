"""A person's yes to a rent: typed, signed, or given beforehand for a price, a count and a date, and nothing else."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasehold.errors import Refusal, UserError
from leasehold.kit.files.canonical_json import digest
from leasehold.kit.text.units import utc_minute
from leasehold.ledger import rentals as book
from leasehold.lifecycle.approval.approve import signed
from leasehold.lifecycle.approval.phrase import Ask, require_phrase
from leasehold.lifecycle.home.home import Home, person
from leasehold.model.lease.rental import RentalState
from leasehold.model.run.receipt import APPROVAL_LIFE_S, Approval, ApprovalRequest, Strength
from leasehold.model.values.money import HourlyPrice

_LONGEST_S = 31 * 86400.0
_MOST_BOXES = 100
VERB = "rent"


@dataclass(frozen=True)
class RentAsk:
    """What a person is asked to approve: one box for a run, from these landlords, up to an hourly price."""

    run: str
    markets: tuple[str, ...]
    most: HourlyPrice

    @property
    def evidence(self) -> str:
        """Return the hash to which an approval is bound."""
        return digest({"run": self.run, "landlords": sorted(self.markets), "most": str(self.most)})

    @property
    def phrase(self) -> str:
        """Return what a person types."""
        return f"rent up to {self.most}"


@dataclass(frozen=True)
class Yes:
    """A yes that covers this rent, and how it is recorded beside the intent."""

    id: str
    strength: Strength
    by: str

    def as_dict(self) -> dict[str, str]:
        """Return the form for the ledger."""
        return {"approval": self.id, "strength": self.strength.value, "by": self.by}


@dataclass(frozen=True)
class Allowance:
    """A standing yes: up to a price, a count and a date."""

    id: str
    most: HourlyPrice
    count: int
    until_unix: float
    by: str
    used: int
    markets: tuple[str, ...] = ()  # empty: every landlord

    @property
    def left(self) -> int:
        """Return how many boxes it still covers."""
        return max(0, self.count - self.used)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        return {**vars(self), "most": str(self.most), "left": self.left}


Approve = Callable[[RentAsk], Yes]


def typed(ask: RentAsk, terminal: Ask, now_unix: float) -> Yes:
    """Require a person to type the price ceiling."""
    where = ", ".join(ask.markets)
    require_phrase(terminal, f"to rent one box from {where}", ask.phrase, "nothing was rented")
    return Yes(digest({"ask": ask.evidence, "nonce": secrets.token_hex(8), "at": now_unix}), Strength.TYPED, person())


def request_for(ask: RentAsk, now_unix: float) -> ApprovalRequest:
    """Build the request for signing; it expires after 15 minutes."""
    return ApprovalRequest(VERB, ask.run, ask.evidence, secrets.token_hex(8), int(now_unix) + APPROVAL_LIFE_S)


def by_signature(home: Home, ask: RentAsk, path: Path, enrolled: dict[str, float], now_unix: float) -> Yes:
    """Check a signed request: it covers exactly this rent, is not older than 15 minutes and was not used before."""
    given: Approval = signed(path, home.signers, enrolled)
    request = given.request
    covers = (request.verb, request.lease, request.evidence) == (VERB, ask.run, ask.evidence)
    if not covers or not now_unix <= request.expires_unix <= now_unix + APPROVAL_LIFE_S:
        raise Refusal(
            "approval.refused",
            "the signed request does not cover this rent; nothing was rented",
            seen=f"`{request.verb}` for {request.lease}, until {utc_minute(request.expires_unix)}",
            hint="write a new one: lease run … --rent-request FILE",
        )
    id = digest(request.as_dict())
    if any(rental.approval == id and rental.state is not RentalState.ABSENT for rental in book.rentals(home.ledger)):
        raise Refusal("approval.used", "this approval was already used", hint="lease run … --rent-request FILE")
    return Yes(id, Strength.SIGNED, given.by)


def grant(home: Home, allowance: Allowance, ask: Ask, now_unix: float) -> Allowance:
    """Have a person type a standing yes to rents."""
    if not 0 < allowance.until_unix - now_unix <= _LONGEST_S:
        raise UserError("rent.allow_too_long", "a standing approval lasts at most 31 days", hint="--for 7d")
    if not 0 < allowance.count <= _MOST_BOXES:
        raise UserError("rent.allow_count", f"{allowance.count} boxes: say 1 to {_MOST_BOXES}", hint="--count 3")
    where = ", ".join(allowance.markets) or "any landlord with a key"
    question = (
        f"until {utc_minute(allowance.until_unix)}, up to {allowance.count} boxes may be rented from {where} at up to\n"
        f"{allowance.most} each, without another question. Nothing is ever stopped or deleted by it. To approve"
    )
    require_phrase(ask, question, f"allow {allowance.count} rents up to {allowance.most}", "nothing was recorded")
    home.ledger.append(
        "rent_allowed", id=allowance.id, most=str(allowance.most), count=allowance.count,
        until_unix=allowance.until_unix, by=allowance.by, markets=list(allowance.markets),
    )  # fmt: skip
    return allowance


def revoke(home: Home) -> int:
    """Withdraw every standing yes; return how many there were."""
    held = len(list(home.ledger.events(kind="rent_allowed")))
    home.ledger.append("rent_allowances_revoked")
    return held


def allowances(home: Home, now_unix: float) -> list[Allowance]:
    """List the standing approvals that hold now."""
    revoked = [event.seq for event in home.ledger.events(kind="rent_allowances_revoked")]
    last = max(revoked, default=0)
    used = [rental.approval for rental in book.rentals(home.ledger) if rental.state is not RentalState.ABSENT]
    found = []
    for event in home.ledger.events(kind="rent_allowed"):
        data = event.data
        if event.seq < last or not event.t <= now_unix <= float(data["until_unix"]):
            continue
        found.append(
            Allowance(
                data["id"], HourlyPrice.parse(data["most"]), int(data["count"]), float(data["until_unix"]), data["by"],
                used.count(data["id"]), tuple(data["markets"]),
            )
        )  # fmt: skip
    return found


def standing_yes(home: Home, ask: RentAsk, now_unix: float) -> Yes | None:
    """Return a standing approval that covers this rent, if a person gave one."""
    for allowed in allowances(home, now_unix):
        fits = allowed.most.currency == ask.most.currency and ask.most.amount <= allowed.most.amount
        if fits and allowed.left and (not allowed.markets or set(ask.markets) <= set(allowed.markets)):
            return Yes(allowed.id, Strength.STANDING, allowed.by)
    return None
