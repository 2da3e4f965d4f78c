"""Prices as given; no exchange rate is ever invented."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from leasehold.errors import UserError

_PRICE = re.compile(r"(?P<amount>\d+(?:\.\d+)?)\s*(?P<currency>[A-Za-z]{3})\s*/\s*h(?:our)?\Z")


@dataclass(frozen=True)
class HourlyPrice:
    """What one hour of a box costs."""

    amount: Decimal
    currency: str

    @classmethod
    def parse(cls, text: str) -> HourlyPrice:
        """Read a price such as 1.98USD/h."""
        found = _PRICE.match(text.strip())
        if not found:
            raise UserError("box.bad_price", f"{text!r} is not a price", hint="write it like 1.98USD/h or 2.4CNY/h")
        return cls(Decimal(found["amount"]), found["currency"].upper())

    def cost(self, seconds: float) -> str:
        """Say what this many seconds cost."""
        total = self.amount * Decimal(max(0.0, seconds)) / 3600
        return f"{total:.2f} {self.currency}"

    def __str__(self) -> str:
        return f"{self.amount:f}{self.currency}/h"  # never 1E-7: it is read back
