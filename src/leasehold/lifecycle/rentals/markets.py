"""Open a landlord's API with the key of this home, and find the profile of a landlord."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from leasehold.errors import BadKey
from leasehold.ledger import rentals as book
from leasehold.lifecycle.home.home import Home
from leasehold.model.lease.lease import Lease
from leasehold.model.lease.rental import RentalState
from leasehold.model.platform.profile import Profile
from leasehold.model.run.note import Report, silent

from .api_landlord import ApiLandlord, acts
from .desk import Desk

if TYPE_CHECKING:
    from leasehold.platforms.landlords.market import Market
    from leasehold.platforms.landlords.markets import Patience

# The landlords' doors are imported when one is asked: most commands ask none, and HTTP takes longer than all the rest.


def opener(
    home: Home, patience: Patience | None = None, environ: Mapping[str, str] = os.environ
) -> Callable[[str], Market]:
    """Return a function that opens a landlord by name; each is opened once."""
    opened: dict[str, Market] = {}

    def open_named(name: str) -> Market:
        from leasehold.platforms.landlords.keys import KeyStore
        from leasehold.platforms.landlords.markets import open_market, vendor

        if name not in opened:
            key = KeyStore(home.path, environ).need(name, vendor(name).variables)
            opened[name] = open_market(name, key, environ, patience)
        return opened[name]

    return open_named


def names() -> list[str]:
    """List the landlords with an API."""
    from leasehold.platforms.landlords.markets import VENDORS

    return [entry.name for entry in VENDORS]


def is_landlord(word: str) -> bool:
    """Return whether a word names a landlord with an API."""
    return word in names()


def with_key(home: Home, environ: Mapping[str, str] = os.environ) -> list[str]:
    """List the landlords for which this home has a key."""
    from leasehold.platforms.landlords.keys import KeyStore
    from leasehold.platforms.landlords.markets import VENDORS

    keys = KeyStore(home.path, environ)
    return [entry.name for entry in VENDORS if keys.find(entry.name, entry.variables) is not None]


def in_use(home: Home) -> list[str]:
    """List the landlords that this home must watch: those with a key, and those of which it holds something."""
    held = book.rentals(home.ledger, RentalState.INTENDED, RentalState.HELD)
    return sorted({*with_key(home), *(rental.market for rental in held)})


def asked_for(home: Home, words: str) -> list[str]:
    """Read a list such as runpod,vastai; empty is every landlord with a key."""
    from leasehold.platforms.landlords.markets import vendor

    chosen = [word for word in words.split(",") if word]
    for word in chosen:
        vendor(word)
    found = chosen or with_key(home)
    if not found:
        raise BadKey("landlord.no_key", "there is no key for any landlord", hint=f"lease landlord login {names()[0]}")
    return found


def profile_of(home: Home, market: str) -> Profile:
    """Return the platform that a landlord's boxes are; it has the landlord's name."""
    return home.shelf().load(market)


def by_api(profile: Profile, market: str) -> Profile:
    """Return the platform as it is for a box rented by API: its verbs are requests, and no person clicks anything."""
    verbs = tuple(replace(verb, by="api", steps=()) if acts(verb) else verb for verb in profile.verbs)
    return replace(profile, landlord=market, verbs=verbs)


def rented_landlord(home: Home, lease: Lease, report: Report = silent) -> ApiLandlord | None:
    """Return the API that rented this lease's box, if one did."""
    rental = book.rental_of_lease(home.ledger, lease.id)
    return None if rental is None else ApiLandlord(Desk(home, opener(home), report), rental)
