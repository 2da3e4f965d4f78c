"""Read fields of a landlord's JSON: what is missing or of another type is an error that names the place."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from leasehold.errors import LandlordDown
from leasehold.kit.text.safe_text import one_line

_LONGEST = 1000


@dataclass(frozen=True)
class Answer:
    """One JSON value that should be an object, and where in the answer it stands."""

    landlord: str
    value: Any
    place: str = ""

    def odd(self, what: str) -> LandlordDown:
        """Return the error for an answer that is not as documented."""
        where = f" at {self.place}" if self.place else ""
        return LandlordDown(
            "landlord.odd_answer",
            f"{self.landlord}'s answer cannot be read{where}: {what}",
            hint="its API may have changed: look for a newer leasehold",
        )

    def has(self, key: str) -> bool:
        """Return whether a field is there and not null."""
        return self._fields.get(key) is not None

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text, safe to show; numbers are spelled."""
        value = self._fields.get(key)
        if isinstance(value, int | Decimal) and not isinstance(value, bool):
            value = f"{value}"
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.odd(f"{key} is {_kind(value)}, not a text")
        return one_line(value)[:_LONGEST]

    def number(self, key: str, default: Decimal | None = None) -> Decimal:
        """Return a number exactly as it was written, digits in a text included."""
        value = self._fields.get(key)
        if value is None and default is not None:
            return default
        found = _decimal(value)
        if found is None:
            raise self.odd(f"{key} is {_kind(value)}, not a number")
        return found

    def whole(self, key: str, default: int | None = None) -> int:
        """Return an integer."""
        value = self.number(key, None if default is None else Decimal(default))
        if value != value.to_integral_value():
            raise self.odd(f"{key} is {value}, not a whole number")
        return int(value)

    def yes(self, key: str) -> bool:
        """Return a boolean; absent is no."""
        value = self._fields.get(key, False)
        if not isinstance(value, bool) and value is not None:
            raise self.odd(f"{key} is {_kind(value)}, not true or false")
        return bool(value)

    def part(self, key: str) -> Answer:
        """Return an object inside; absent and null are an empty one."""
        value = self._fields.get(key)
        return Answer(self.landlord, {} if value is None else value, self._below(key))

    def each(self, key: str, *, absent: bool = False) -> Iterator[Answer]:
        """Yield the objects of a list, which must be there unless `absent` is allowed."""
        value = self._fields.get(key)
        if value is None and absent:
            return
        if not isinstance(value, list):
            raise self.odd(f"{key} is {_kind(value)}, not a list")
        for index, item in enumerate(value):
            yield Answer(self.landlord, item, f"{self._below(key)}[{index}]")

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; absent is empty."""
        value = self._fields.get(key) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.odd(f"{key} is not a list of texts")
        return tuple(one_line(item)[:_LONGEST] for item in value)

    def unix(self, key: str) -> float | None:
        """Return a time, written as seconds or as RFC 3339; None if it is absent or cannot be read."""
        value = self._fields.get(key)
        if isinstance(value, int | Decimal) and not isinstance(value, bool):
            return float(value)
        try:
            told = datetime.datetime.fromisoformat(value) if isinstance(value, str) else None
            return (told if told.tzinfo else told.replace(tzinfo=datetime.UTC)).timestamp() if told else None
        except (ValueError, OverflowError):
            return None

    @property
    def _fields(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.odd(f"it is {_kind(self.value)}, not an object")
        return self.value

    def _below(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key


def _decimal(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        return None
    try:
        number = Decimal(str(value).strip())
    except ArithmeticError:
        return None
    return number if number.is_finite() else None


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "missing"}
    return names.get(type(value), "a number")
