"""Prices as given; no exchange rate is ever invented."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from leasehold.errors import UserError

_PRICE = re.compile(r"(?P<amount>\d+(?:\.\d+)?)\s*(?P<currency>[A-Za-z]{3})\s*/\s*h(?:our)?\Z")


_AMOUNT = re.compile(r"(?P<amount>\d+(?:\.\d+)?)\s*(?P<currency>[A-Za-z]{3})\Z")


@dataclass(frozen=True)
class Money:
    """Amounts by currency, as they were given; they are added, never converted."""

    amounts: tuple[tuple[str, Decimal], ...] = ()

    @classmethod
    def of(cls, amount: Decimal | int | str, currency: str) -> Money:
        """Return one amount as Money."""
        return cls(((currency.upper(), Decimal(amount)),))

    @classmethod
    def parse(cls, text: str) -> Money:
        """Read an amount such as 20USD; the ValueError shows the format."""
        found = _AMOUNT.match(text.strip())
        if not found:
            raise ValueError(f"{text!r} is not an amount; write it like 20USD or 150CNY")
        return cls.of(found["amount"], found["currency"])

    def __add__(self, other: Money) -> Money:
        if not self.amounts or not other.amounts:
            return other if not self.amounts else self
        sums = dict(self.amounts)
        for currency, amount in other.amounts:
            sums[currency] = sums.get(currency, Decimal(0)) + amount
        return Money(tuple(sorted(sums.items())))

    def times(self, factor: float | Decimal) -> Money:
        """Multiply every amount."""
        return Money(tuple((currency, amount * Decimal(factor)) for currency, amount in self.amounts))

    def share_of(self, whole: Money) -> float | None:
        """Return which part of whole this is; None unless both are of one and the same currency."""
        mine, theirs = ({name: part for name, part in money.amounts if part} for money in (self, whole))
        if len(theirs) != 1 or set(mine) - set(theirs):
            return None
        currency, amount = next(iter(theirs.items()))
        return float(mine.get(currency, Decimal(0)) / amount) if amount else None

    def as_dict(self) -> dict[str, str]:
        """Return the form for --json: exact decimals by currency."""
        return {currency: f"{amount:.4f}" for currency, amount in self.amounts}

    @property
    def spelled(self) -> str:
        """Format every amount with two places, as in a column; less than half a cent gets a third."""
        return " + ".join(
            f"{amount:.{3 if 0 < amount < Decimal('0.005') else 2}f} {currency}" for currency, amount in self.amounts
        )

    def __bool__(self) -> bool:
        return any(amount for _, amount in self.amounts)

    def __str__(self) -> str:
        shown = [f"{amount:.{2 if amount >= 1 else 3}f} {currency}" for currency, amount in self.amounts if amount]
        return " + ".join(shown) or "nothing"


@dataclass(frozen=True)
class HourlyPrice:
    """The price of one hour of a box."""

    amount: Decimal
    currency: str

    @classmethod
    def parse(cls, text: str) -> HourlyPrice:
        """Read a price such as 1.98USD/h."""
        found = _PRICE.match(text.strip())
        if not found:
            raise UserError("box.bad_price", f"{text!r} is not a price", hint="write it like 1.98USD/h or 2.4CNY/h")
        return cls(Decimal(found["amount"]), found["currency"].upper())

    @property
    def money(self) -> Money:
        """Return the price of one hour."""
        return Money.of(self.amount, self.currency)

    def cost(self, seconds: float) -> str:
        """Return the cost of this many seconds."""
        total = self.amount * Decimal(max(0.0, seconds)) / 3600
        return f"{total:.2f} {self.currency}"

    def __str__(self) -> str:
        return f"{self.amount:f}{self.currency}/h"  # never 1E-7: it is read back
