"""A home at the counters of its landlords: the ledger, the opened markets, and a clock that tests can move."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from leasehold.errors import LandlordError, TooFast
from leasehold.ledger.store import Ledger
from leasehold.lifecycle.home.home import Home
from leasehold.model.run.note import Report, silent
from leasehold.platforms.landlords.market import Market

T = TypeVar("T")
_BACK_OFF_S = (2.0, 5.0, 10.0, 20.0, 30.0, 60.0)  # where a landlord does not say when to ask again


@dataclass(frozen=True)
class Desk:
    """What every step of a rental needs."""

    home: Home
    open: Callable[[str], Market]  # by name; raises BadKey where no key is known
    report: Report = silent
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = field(default=time.sleep)

    @property
    def ledger(self) -> Ledger:
        """Return this home's ledger."""
        return self.home.ledger


def patiently(desk: Desk, ask: Callable[[], T]) -> T:
    """Ask again while the landlord only says that we ask too often; give up after about two minutes."""
    for wait_s in _BACK_OFF_S:
        try:
            return ask()
        except TooFast as error:
            desk.sleep(min(120.0, wait_s if error.retry_after_s is None else max(0.1, error.retry_after_s)))
    return ask()


def why(error: LandlordError) -> str:
    """Return what a landlord said, for a line of its own."""
    return error.message + (f" ({error.seen})" if error.seen else "")
