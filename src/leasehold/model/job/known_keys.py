"""Checks that several keys of a job file share: which keys a mapping may have, and places that overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from leasehold.errors import UserError

from .keys import Word

Bad = Callable[[str, str, str], UserError]


def refuse_unknown(value: Mapping[Any, Any], key: str, words: Iterable[Word], bad: Bad, more: str = "") -> None:
    """Refuse a key that the mapping may not have; the hint lists those that it may, and more."""
    names = tuple(word.name for word in words)
    for name in value:
        if name not in names:
            raise bad(f"{key}.{name}", "is not a key here", f"known: {', '.join(names)}{more}")


def refuse_overlap(places: Iterable[str], key: str, bad: Bad) -> None:
    """Refuse a folder that is another one's, or lies in it."""
    seen: list[str] = []
    for number, place in enumerate(places):
        for other in seen:
            if f"{place}/".startswith(f"{other}/") or f"{other}/".startswith(f"{place}/"):
                raise bad(f"{key}.{number}.to", f"{place} and {other} overlap", "give each a place of its own")
        seen.append(place)
