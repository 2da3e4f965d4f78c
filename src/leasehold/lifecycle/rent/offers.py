"""Offers that fit a job, from several landlords at once, with the price of the whole job and what each box survives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from leasehold.errors import LandlordError, LeaseholdError
from leasehold.gates.start.audit import disk_need_bytes
from leasehold.lifecycle.machine.box import folder_on
from leasehold.lifecycle.preflight.plan_inputs import Planned, judge
from leasehold.lifecycle.rentals.balances import balance_text
from leasehold.lifecycle.rentals.desk import Desk, why
from leasehold.lifecycle.rentals.markets import profile_of
from leasehold.model.job.job import Job
from leasehold.model.platform.placing import placed
from leasehold.model.platform.plan_sheet import Wishes, iso
from leasehold.model.platform.profile import YES, Profile
from leasehold.model.run.verdict import Outcome
from leasehold.model.values.money import HourlyPrice, Money
from leasehold.platforms.landlords.market import Account, Market, Need, Offer

ANSWER_S = 30.0  # the door gives up after its own time; this bounds all landlords together
_GIB = 1 << 30
_SPARE_GB = 10  # for the image's own files and the environment, beside what the job declares


@dataclass(frozen=True)
class OfferWish:
    """A person's limits beside the job."""

    spot: bool = False
    most: HourlyPrice | None = None
    regions: tuple[str, ...] = ()
    reliability: float = 0.0
    bandwidth_bytes_s: float = Wishes.bandwidth_bytes_s
    balances: tuple[tuple[str, str], ...] = ()  # by landlord, as its API told
    stated: HourlyPrice | None = None  # what a person read in the console, for offers whose API tells no price


@dataclass(frozen=True)
class Priced:
    """An offer for a job: an hour of it, the whole job, what the box would survive, and the plan gate's verdict."""

    offer: Offer
    profile: Profile
    planned: Planned
    disk_gb: int
    price: HourlyPrice | None  # of compute; None: nobody tells it
    hour: Money | None
    total: Money | None  # None: the job does not say how long it trains, or the price is not known
    survives: str

    @property
    def fits(self) -> bool:
        """Return whether the plan gate lets the job go there."""
        return self.planned.verdict.outcome is not Outcome.REFUSED

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        offer, against = self.offer, self.planned.verdict.against()
        return {
            "landlord": offer.market,
            "platform": self.profile.id,
            "offer": offer.id,
            "card": offer.card,
            "count": offer.count,
            "card_gb": offer.card_gb,
            "region": offer.region,
            "spot": offer.spot,
            "price": str(self.price) if self.price is not None else None,
            "price_stated": offer.price is None and self.price is not None,
            "hour": None if self.hour is None else self.hour.as_dict(),
            "total": None if self.total is None else self.total.as_dict(),
            "disk_gb": self.disk_gb,
            "read_at": iso(offer.read_unix),
            "survives": self.survives,
            "reliability": offer.reliability,
            "stock": offer.stock if offer.stock is not None else offer.stock_word,
            "ends": None if offer.ends_unix is None else iso(offer.ends_unix),
            "fits": self.fits,
            "against": [finding.what for finding in against],
            "note": offer.note,
        }


@dataclass(frozen=True)
class Offers:
    """What the landlords offer now, cheapest whole job first, and who did not answer."""

    found: tuple[Priced, ...]
    silent: tuple[tuple[str, str], ...]  # landlord, why
    balances: tuple[tuple[str, str], ...] = ()  # landlord, what its API tells


def need_of(job: Job, wish: OfferWish) -> Need:
    """Return what a box must have for a job."""
    gpu = job.gpu
    return Need(
        cards=(gpu.name,) if gpu and gpu.name else (),
        count=gpu.count if gpu else 1,
        card_gb=gpu.memory_min_bytes // _GIB if gpu else 0,
        disk_gb=disk_gb_of(job),
        regions=wish.regions,
        spot=wish.spot,
        most_per_hour=wish.most,
        reliability=wish.reliability,
    )


def disk_gb_of(job: Job) -> int:
    """Return how large a disk to rent for a job."""
    return math.ceil(disk_need_bytes(job, max(1, len(job.cells))) / 10**9) + _SPARE_GB


def offers_for(desk: Desk, job: Job, markets: Sequence[str], wish: OfferWish) -> Offers:
    """Ask the landlords in parallel; one that fails or is slow is named, and the others' answers are shown."""
    need, opened = need_of(job, wish), dict[str, Market]()
    silent: list[tuple[str, str]] = []
    for name in markets:
        try:
            opened[name] = desk.open(name)
        except LeaseholdError as error:
            silent.append((name, error.message))
    pool = ThreadPoolExecutor(max(1, 2 * len(opened)), thread_name_prefix="landlord")
    asked = {name: pool.submit(market.offers, need) for name, market in opened.items()}
    accounts = {name: pool.submit(market.account) for name, market in opened.items()}
    everything: list[Future[Any]] = [*asked.values(), *accounts.values()]
    wait(everything, ANSWER_S)
    pool.shutdown(wait=False, cancel_futures=True)
    balances = {name: text for name, account in accounts.items() if (text := _balance(account))}
    found: list[Priced] = []
    for name, answer in asked.items():
        offered = _answered(name, answer, silent)
        profile = profile_of(desk.home, name) if offered else None
        fits = [offer for offer in offered if profile is not None and _fits(job, offer, wish)]
        told = replace(wish, balances=tuple(balances.items()))
        found += [_priced(job, offer, profile, told, desk.clock()) for offer in fits if profile is not None]
    return Offers(tuple(sorted(found, key=_order)), tuple(silent), tuple(balances.items()))


def _answered(name: str, answer: Future[tuple[Offer, ...]], silent: list[tuple[str, str]]) -> tuple[Offer, ...]:
    """Return a landlord's offers, or none and note why it is silent."""
    if not answer.done():
        silent.append((name, f"no answer within {ANSWER_S:.0f} s"))
        return ()
    try:
        return answer.result()
    except LandlordError as error:
        silent.append((name, why(error)))
        return ()


def _balance(account: Future[Account]) -> str:
    """Return the balance that an API told; empty if it tells none, or did not answer: then it is not known."""
    failed = not account.done() or account.exception() is not None
    return "" if failed else balance_text(account.result())


def _fits(job: Job, offer: Offer, wish: OfferWish) -> bool:
    """Check what a landlord's own filter may leave open."""
    gpu = job.gpu
    if gpu and gpu.memory_max_bytes and offer.card_gb * _GIB > gpu.memory_max_bytes * 1.08:  # 80 "GB" may be GiB
        return False
    price = offer.price or wish.stated
    if wish.most is not None and price is not None:
        return price.currency == wish.most.currency and price.amount <= wish.most.amount
    return True


def _priced(job: Job, offer: Offer, profile: Profile, wish: OfferWish, now_unix: float) -> Priced:
    disk_gb = disk_gb_of(job)
    root, price = folder_on(profile), offer.price or wish.stated
    wishes = Wishes(
        str(price or ""), dict(wish.balances).get(offer.market, ""), spot=offer.spot,
        bandwidth_bytes_s=wish.bandwidth_bytes_s, cards=offer.count, root=root,
        disk_gb={profile.state_tier.name: Decimal(disk_gb)},
    )  # fmt: skip
    planned = judge(offer.market, job, placed(profile, root), wishes, now_unix)
    cast = planned.sheet.forecast
    disk = (
        offer.disk_per_gb.money.times(disk_gb)
        if offer.disk_per_gb is not None
        else profile.storage_per_hour({profile.state_tier.name: Decimal(disk_gb)}, stopped=False)
    )
    hour = price.money + disk if price is not None else None
    total = (
        None if cast.ends_s is None or hour is None else hour.times(Decimal(cast.ends_s) / 3600) + _traffic(job, offer)
    )
    return Priced(offer, profile, planned, disk_gb, price, hour, total, survives_of(profile, offer))


def _traffic(job: Job, offer: Offer) -> Money:
    """Return what bringing the results home costs, where the landlord bills bytes."""
    size = Decimal(job.checkpoint.size_bytes * max(1, len(job.cells))) / 10**9
    inward = Decimal(sum(item.size_bytes for item in job.downloads)) / 10**9
    out = offer.egress_per_gb.times(size) if offer.egress_per_gb else Money()
    return out + (offer.ingress_per_gb.times(inward) if offer.ingress_per_gb else Money())


def survives_of(profile: Profile, offer: Offer) -> str:
    """Say what the run's disk outlives: a stop, a preemption, an empty balance, the end of the box."""
    tier = profile.state_tier
    kept = [("stop", tier.survives_stop if offer.can_park or profile.parking else "n/a")]
    if offer.spot:
        kept.append(("eviction", tier.survives(profile.spot.effect)))
    kept += [("balance 0", tier.survives_balance_zero), ("release", tier.survives_destroy)]
    return ", ".join(f"{what}: {'yes' if answer == YES else answer}" for what, answer in kept if answer != "n/a")


def _order(priced: Priced) -> tuple[Any, ...]:
    """Sort by the whole job within a currency; what has no price comes last, for it cannot be compared."""
    currency, hour = priced.hour.amounts[0] if priced.hour is not None else ("~", Decimal(0))
    total = dict(priced.total.amounts).get(currency) if priced.total is not None else None
    return (not priced.fits, currency, total is None, total or hour, hour, priced.offer.market, priced.offer.id)


def fitting(offers: Offers) -> Offers:
    """Keep the offers that the plan gate allows."""
    return replace(offers, found=tuple(one for one in offers.found if one.fits))
