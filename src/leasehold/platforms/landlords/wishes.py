"""Compare what a landlord offers with what is needed; every landlord spells cards in its own way."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

from leasehold.model.values.money import HourlyPrice
from leasehold.platforms.landlords.market import Need, Offer

_MAKERS = {"nvidia", "geforce", "tesla", "amd", "gpu"}
_WORD = re.compile(r"[a-z]+\d+[a-z0-9]*|[a-z]+|\d+[a-z]*")


def card_words(name: str) -> set[str]:
    """Split a card's name into comparable words: "RTX_4090", "rtx4090" and "NVIDIA GeForce RTX 4090" share theirs."""
    spaced = re.sub(r"(?<=rtx)(?=\d)|(?<=gtx)(?=\d)", " ", name.lower())
    return set(_WORD.findall(spaced)) - _MAKERS


def fits_card(wanted: Iterable[str], name: str) -> bool:
    """Return whether a card is one of the wanted ones; nothing wanted is any card."""
    words = card_words(name)
    names = tuple(wanted)
    return not names or any(card_words(one) <= words for one in names if card_words(one))


def fits(need: Need, offer: Offer) -> bool:
    """Return whether an offer is what is needed, as far as the landlord told."""
    place = offer.region.lower()
    return (
        offer.count == need.count
        and offer.spot == need.spot
        and fits_card(need.cards, offer.card)
        and offer.card_gb >= need.card_gb
        and (not need.regions or any(_in_region(region, place) for region in need.regions))
        and (offer.reliability is None or offer.reliability >= need.reliability)
        and (not need.cuda_at_least or not offer.cuda_at_most or _cuda(offer.cuda_at_most) >= _cuda(need.cuda_at_least))
        and not _dearer(offer.price, need.most_per_hour)
    )


def sorted_offers(need: Need, offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """Return the offers that fit, cheapest compute first."""
    return tuple(sorted((offer for offer in offers if fits(need, offer)), key=_by_price))


def _in_region(wanted: str, place: str) -> bool:
    """Return whether a place is in a region: "US" holds "US-KS-2" and "Kansas, US", "NY2" holds "East Coast (NY2)"."""
    word = wanted.lower()
    return word == place or any(one == word or one.startswith(word + "-") for one in re.findall(r"[\w-]+", place))


def _by_price(offer: Offer) -> tuple[bool, Decimal, str]:
    return offer.price is None, offer.price.amount if offer.price else Decimal(0), offer.id


def _dearer(price: HourlyPrice | None, most: HourlyPrice | None) -> bool:
    """Return whether a price may be above the ceiling: an unknown one, or one of another currency, is not below it."""
    return most is not None and (price is None or price.currency != most.currency or price.amount > most.amount)


def _cuda(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
