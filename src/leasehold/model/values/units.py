"""Read sizes and durations as people write them; the same module exports their formatters."""

from __future__ import annotations

import math
import re
from typing import Any

from leasehold.kit.text.units import GIB, ago, local_day, local_second, say_bytes, say_gib, utc_minute

__all__ = [
    "GIB",
    "ago",
    "local_day",
    "local_second",
    "number",
    "parse_duration",
    "parse_rate",
    "parse_size",
    "say_bytes",
    "say_gib",
    "utc_minute",
]

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGTP]i?B|B)\Z", re.IGNORECASE)
_DURATION = re.compile(
    r"(?:(?P<d>\d+(?:\.\d+)?)\s*d(?:ays?)?)?\s*(?:(?P<h>\d+(?:\.\d+)?)\s*h(?:ours?)?)?\s*"
    r"(?:(?P<m>\d+(?:\.\d+)?)\s*m(?:in(?:utes?)?)?)?\s*(?:(?P<s>\d+(?:\.\d+)?)\s*s(?:ec(?:onds?)?)?)?\Z"
)
_MOST_BYTES = 1e21
_MOST_S = 100 * 366 * 86400.0
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def number(value: Any) -> float | None:
    """Return a reading as a number, or None: nothing that a box sends is trusted to be one."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None


def parse_size(text: str) -> int:
    """Read 40GB (powers of 1000) or 40GiB (powers of 1024) as bytes; the ValueError shows the format."""
    found = _SIZE.match(text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a size; write it like 40GB or 512MiB")
    unit = found["unit"].lower()
    base = 1024 if "i" in unit else 1000
    size = float(found["number"]) * base ** _POWERS.get(unit[0], 0)
    if size >= _MOST_BYTES:
        raise ValueError(f"{text[:40]!r} is more than any disk holds")
    return int(size)


def parse_rate(text: str) -> float:
    """Read 10MB, 10MB/s or 2MiB as bytes a second; the ValueError shows the format."""
    try:
        rate = parse_size(text.strip().removesuffix("/s"))
    except ValueError:
        raise ValueError(f"{text!r} is not a rate; write it like 10MB or 2MiB/s") from None
    if rate < 1000:
        raise ValueError(f"{text!r} is too slow to be meant; write it like 10MB or 2MiB/s")
    return float(rate)


def parse_duration(text: str) -> float:
    """Read 90s, 45min, 6h, 1d 12h as seconds; the ValueError shows the format."""
    found = _DURATION.match(text.strip())
    if not found or not text.strip():
        raise ValueError(f"{text!r} is not a duration; write it like 90s, 45min, 6h or 1d 12h")
    weights = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
    seconds = sum(float(found[unit] or 0) * weight for unit, weight in weights.items())
    if seconds > _MOST_S:
        raise ValueError(f"{text[:40]!r} is longer than a hundred years")
    return seconds
