"""Adapters from other packages: landlords by entry point, so that a platform with an API needs no change here.

A package declares, in the group `leasehold.landlords`, a name and a callable that takes a Lease and returns a Landlord
(contract.py). A profile with `landlord: NAME` and verbs with `by: api` then uses it.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from leasehold.errors import HomeError, UserError
from leasehold.model.lease.lease import Lease
from leasehold.platforms.contract import Landlord

GROUP = "leasehold.landlords"


def landlord_named(name: str, lease: Lease) -> Landlord:
    """Load the adapter of this name; report what is missing, or which package is broken."""
    found = [point for point in entry_points(group=GROUP) if point.name == name]
    if not found:
        known = ", ".join(sorted(point.name for point in entry_points(group=GROUP))) or "none is installed"
        raise UserError(
            "landlord.missing",
            f"the platform's landlord {name!r} is not installed",
            hint=f"pip install the package that brings it; known here: {known}",
        )
    if len(found) > 1:
        raise HomeError("landlord.twice", f"two packages bring a landlord {name!r}: {_whose(found)}", hint="remove one")
    try:
        landlord: Any = found[0].load()(lease)
        if not callable(landlord.act) or not callable(landlord.poll) or not isinstance(landlord.simulated, bool):
            raise TypeError("it has no act, poll or simulated")
    except Exception as error:  # noqa: BLE001 - somebody else's code, at the boundary to it
        what = f"{_whose(found)} could not be used: {error!r}"
        raise HomeError("landlord.broken", what, hint="ask its author") from None
    return cast("Landlord", landlord)


def _whose(points: list[EntryPoint]) -> str:
    return ", ".join(f"{point.value} of {point.dist.name if point.dist else 'an unnamed package'}" for point in points)
