"""The patrol's readings, one a minute, also when nothing changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .curves import Measured

_EVERY_S = 60


def last_of_minutes(seen: Measured, after_unix: float, whole: bool) -> Iterator[dict[str, Any]]:
    """Yield the last reading of each minute after a time; that of the minute that still runs only if `whole`."""
    held: Mapping[str, Any] | None = None
    for record in [*seen.records, None]:
        over = whole if record is None else held is not None and _minute(record) != _minute(held)
        if held is not None and over and float(held["t"]) > after_unix:
            yield dict(held)
        # Cards and disks are sampled less often than the rest: the minute's last answer counts.
        asked = {} if over or held is None else {name: held[name] for name in ("gpus", "disks") if name in held}
        held = None if record is None else {**asked, **record}


def _minute(record: Mapping[str, Any]) -> int:
    return int(record["t"]) // _EVERY_S
